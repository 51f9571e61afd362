-- Gives slots of limits to owners, each while fewer than its number have one, with fencing tokens
-- that rise.
--
-- KEYS[i]    the limits, n of them, at most 100; see slots.lua
-- KEYS[n+…]  on a cluster, where all are one limit: its holders, and with a place, the line, so that
--            none is made in a slot that is only arriving, beside the one to come
-- ARGV[1]    time to live of the slots, ms
-- ARGV[2]    time to live of the mark, ms
-- ARGV[3]    the key of the mark: see acquire.lua
-- ARGV[4]    "MODE LINES INBOX": see acquire.lua
-- ARGV[1+4i] owner token, 22 bytes
-- ARGV[2+4i] the place from which it asks: see acquire.lua. Claims on one limit from one place, one
--            behind the other, are for several who wait there: if one is refused, it is in the line
-- ARGV[3+4i] its holder, as text: see acquire.lua
-- ARGV[4+4i] how many may have one
--
-- Returns, of n > 1 claims, an array of these, and otherwise one itself:
--   token                      the owner has a slot
--   {value, ms, us, since, n}  it has none, as n have: of the one that lapses first, as rule.lua
--                              says, value ("" if it is a place's turn) and ms; the server's clock in
--                              us; and when the place came, in us, 0 if it does not stand in the
--                              line. Or its own was broken (break.lua): value and ms are of that
--   an error                   nothing is changed, or the owner has a slot that it does not know of

local ttl, markKey, n = tonumber(ARGV[1]), ARGV[3], (#ARGV - 4) / 4
local time = redis.call('TIME')
local nowText = time[1] .. string.sub('00000' .. time[2], -6)
local now = tonumber(nowText)
local ends = string.format('%.0f', now + ttl * 1000)
-- include lives.lua

-- While a slot of a cluster is moving MGET is refused, as one of the two is never here: a second mark
-- where the first is to come would keep that from coming.
local mark = redis.pcall('MGET', markKey, markKey .. ':moving')
if mark.err then
	return string.find(mark.err, 'non local key', 1, true) and
		redis.error_reply('TRYAGAIN the keys of ' .. KEYS[1] .. ' are moving') or mark
end
local given, digits = string.match(mark[1] or '0', '^(g?)(%d+)$') -- g: see grant.lua
mark = given and #digits <= 16 and tonumber(digits)
if not mark or mark > 9007199254740990 - n then
	return redis.error_reply('LOCKBEAT the fence counter ' .. markKey ..
		' is no number below 2^53-1, so that no token can be sure to rise; delete the key')
end

-- Returns a token, and what is known of its owner. The mark is raised above all tokens that may be
-- needed before the first is given: where the server refuses the rest, no other owner gets the same.
local nextToken
local function newToken(i)
	local token = nextToken or math.max(now, mark + 1)
	if not nextToken then
		mark = token + n - 1
		local ahead = mark > now + 10000 and math.ceil((mark - now) / 1000)
		local lives = ahead and ARGV[2] + ahead or ARGV[2]
		if given ~= '' then
			lives = math.max(tonumber(lives), redis.call('PTTL', markKey))
		end
		redis.call('SET', markKey, given .. (mark == now and nowText or string.format('%.0f', mark)),
			'PX', lives)
	end
	nextToken = token + 1
	local text = token == now and nowText or string.format('%.0f', token)
	return token, text .. '\n' .. nowText .. '\n' .. ARGV[3 + 4 * i]
end

-- The usual case: there is room, nobody waits, and no slot has lapsed. counts: how many have each
-- limit; false if it is not that case, and the later claims on it wait their turn too.
local answers, rest, counts, i = {}, {}, {}, 1
local some = n == 1 or redis.call('EXISTS', unpack(KEYS)) > 0
while i <= n do
	local key, to = KEYS[i], i - 1
	local holders, have = key .. ':holders', counts[key]
	if have == nil then
		have = some and redis.pcall('ZCARD', key) or 0
		if have ~= 0 and (type(have) == 'table' or redis.pcall('HEXISTS', holders, '+') ~= 0 or
			redis.call('ZCOUNT', key, '(' .. nowText, '+inf') < have) then
			have = false
		end
	end
	local slots, told = {}, {}
	while have and to < n and KEYS[to + 1] == key and #ARGV[5 + 4 * to] == 22 and
		#ARGV[6 + 4 * to] < 2 and have + to - i + 1 < tonumber(ARGV[8 + 4 * to]) do
		to = to + 1
		local token, text = newToken(to)
		answers[to] = token
		told[#told + 1], told[#told + 2] = ARGV[1 + 4 * to], text
		slots[#slots + 1], slots[#slots + 2] = ends, ARGV[1 + 4 * to]
	end
	local wanted = to - i + 1
	local got = wanted > 0 and redis.call('ZADD', key, 'NX', unpack(slots))
	if got == wanted and type(redis.pcall('HSET', holders, unpack(told))) ~= 'table' then
		lives(key, ARGV[1], have == 0)
		counts[key], i = have + wanted, to + 1
	else
		for j = 2, got and #slots or 0, 2 do -- one has a slot, or the hash is another program's
			if redis.pcall('HEXISTS', holders, slots[j]) ~= 1 then
				redis.call('ZREM', key, slots[j])
			end
		end
		nextToken = wanted > 0 and answers[i] or nextToken
		counts[key], rest[#rest + 1] = false, i
		i = i + 1 -- not in one assignment: their order is not defined
	end
end
if not rest[1] then
	return n == 1 and answers[1] or answers
end

-- include slots_claim.lua
for _, i in ipairs(rest) do
	local key = KEYS[i]
	local have = counts[key] or count(key)
	if type(have) == 'table' then
		answers[i] = have
	elseif #ARGV[1 + 4 * i] ~= 22 then
		answers[i] = redis.error_reply('LOCKBEAT the owner token has ' .. #ARGV[1 + 4 * i] ..
			' bytes; give one of 22')
	else
		local again = i > 1 and KEYS[i - 1] == key and #ARGV[2 + 4 * i] > 1 and
			ARGV[4 * i - 2] == ARGV[2 + 4 * i]
		answers[i], have = claim(i, key, have, again)
		if not again then
			have = fill(key, have, tonumber(ARGV[4 + 4 * i]))
		end
	end
	counts[key] = have
end
return n == 1 and answers[1] or answers
