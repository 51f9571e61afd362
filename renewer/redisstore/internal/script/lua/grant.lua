-- Gives a lease to an owner. It stands in rule.lua.
--
-- A token that the server picks is above its clock and above the mark, and above the counter of the
-- name, if it has one. A token that is given need not be above the mark where there is a counter.

-- Reads a counter, 0 if there is none. Digits only, since tonumber would take '0x10', '1e9' and
-- 'nan' too.
local function count(text, key)
	local number = not text and 0 or #text <= 16 and string.match(text, '^%d+$') and tonumber(text)
	if number and number < 9007199254740991 then
		return number
	end
	return nil, redis.error_reply('LOCKBEAT the fence counter ' .. key ..
		' is no number below 2^53-1, so that no token can be sure to rise; delete the key')
end

-- Gives it for some ms, and answers as rule.lua says. It may be waited for.
local function grant(lease, owner, from, holder, life, waitedFor)
	local counter = lease .. ':fence'
	local counters = redis.pcall('MGET', markKey, counter)
	if counters.err then -- on a cluster, while the slot is moving: some keys are on another server
		return redis.error_reply('TRYAGAIN the keys of ' .. lease .. ' are moving')
	end
	local mark, damaged = count(counters[1], markKey)
	if damaged then
		return damaged
	end
	local own
	own, damaged = count(counters[2], counter)
	if damaged then
		return damaged
	end
	local token, top = math.max(now, mark + 1, own + 1), nil
	if proposed then
		token = tonumber(proposed)
		if token > 9007199254740990 then
			return redis.error_reply('LOCKBEAT the fencing token ' .. proposed ..
				' is not below 2^53-1; give a lower one')
		end
		local high = counters[2] and own or mark
		if token <= high then
			return {high}
		end
		top = math.min(token + reserve, 9007199254740990) -- one is left for the next
		local lives = math.max(tonumber(ARGV[2]), tonumber(life))
		redis.call('SET', counter, string.format('%.0f', top), 'PX', lives)
		if redis.call('PTTL', markKey .. ':given') < lives then
			redis.call('SET', markKey .. ':given', '', 'PX', lives)
		end
	else
		top = from == '' and token or math.max(token, now + 10000)
		local text = string.format('%.0f', top)
		if counters[2] then
			redis.call('SET', counter, text, 'KEEPTTL')
		end
		if own <= mark or own < now then -- tokens of others must not follow those of one ahead
			-- It lives longer than the clock may have been set back since.
			local ahead = top > now + 10000 and math.ceil((top - now) / 1000)
			redis.call('SET', markKey, text, 'PX', ahead and ARGV[2] + ahead or ARGV[2])
		end
	end
	redis.call('SET', lease, owner .. '\n' .. string.format('%.0f', token) .. '\n' .. nowText ..
		'\n' .. holder .. (waitedFor and '\n+' or ''), 'PX', life)
	return top > token and {token, top - token} or token
end
