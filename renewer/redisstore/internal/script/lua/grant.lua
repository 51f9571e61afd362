-- Gives a lease to an owner for some ms, life, with a token, and those up to top. It stands in
-- rule.lua.
--
-- A token that the server picks is above its clock and above the mark, and above the counter of the
-- name, if it has one. A token that is given need not be above the mark where there is a counter.
-- Wherever there may be one the mark is "g" and a number, which INCR refuses: see native.go.
local counter = lease .. ':fence'
local counters = redis.pcall('MGET', markKey, counter)
if counters.err then -- on a cluster, while the slot is moving: some keys are on another server
	return redis.error_reply('TRYAGAIN the keys of ' .. lease .. ' are moving')
end
local marked = counters[1] and string.match(counters[1], '^g')
local given = (marked or proposed or counters[2]) and 'g' or ''
for i = 1, 2 do
	local text = counters[i]
	if text then
		text = i == 1 and string.match(text, '^g(.*)$') or text
		-- Digits only, since tonumber would take '0x10', '1e9' and 'nan' too.
		local number = #text <= 16 and string.find(text, '^%d+$') and tonumber(text)
		if not number or number >= 9007199254740991 then
			return redis.error_reply('LOCKBEAT the fence counter ' ..
				(i == 1 and markKey or counter) ..
				' is no number below 2^53-1, so that no token can be sure to rise; delete the key')
		end
		counters[i] = number
	end
end
local mark, own = counters[1] or 0, counters[2] or 0
local token, top = math.max(now, mark + 1, own + 1), nil
if proposed then
	token = tonumber(proposed)
	if token > 9007199254740990 then
		return redis.error_reply('LOCKBEAT the fencing token ' .. proposed ..
			' is not below 2^53-1; give a lower one')
	end
	local high = counters[2] or mark
	if token <= high then
		return {high}
	end
	top = math.min(token + reserve, 9007199254740990) -- one is left for the next
	local lives = math.max(tonumber(ARGV[2]), tonumber(life))
	redis.call('SET', counter, string.format('%.0f', top), 'PX', lives)
	local left = redis.call('PTTL', markKey)
	if left < lives or not marked then
		redis.call('SET', markKey, 'g' .. string.format('%.0f', mark), 'PX', math.max(left, lives))
	end
else
	top = from == '' and token or math.max(token, now + 10000)
	local text = top == now and nowText or string.format('%.0f', top)
	if counters[2] then
		redis.call('SET', counter, text, 'KEEPTTL')
	end
	local high = top
	if own > mark and own >= now then -- tokens of others must not follow those of one ahead
		high, text = mark, string.format('%.0f', mark)
	end
	-- It lives longer than the clock may have been set back since, and than any counter.
	local ahead = high > now + 10000 and math.ceil((high - now) / 1000)
	local lives = ahead and ARGV[2] + ahead or ARGV[2]
	if given ~= '' then
		lives = math.max(tonumber(lives), redis.call('PTTL', markKey))
	end
	redis.call('SET', markKey, given .. text, 'PX', lives)
end
local text = token == now and nowText or string.format('%.0f', token)
redis.call('SET', lease, owner .. '\n' .. text .. '\n' .. nowText .. '\n' .. holder ..
	(waitedFor and '\n+' or ''), 'PX', life)
