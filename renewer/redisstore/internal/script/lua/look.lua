-- Reads the record of a lock, and begins a holder's term: from then on nobody with a lower token
-- can write it. May write the holder's first record.
--
-- KEYS[1]  the record: PREFIX{name}:record
-- ARGV[1]  the holder's fencing token, in decimal, below 2^53; or "0": only look
-- ARGV[2]  time to live of the term, ms, if there is no record, and of the holder's first record;
--          another record keeps its own
-- ARGV[3]  the data of the holder's first record, or "": write none
-- ARGV[4]  the fencing token of who wrote the record that this is to follow, in decimal, and
-- ARGV[5]  the number of that; "0" each for none. After any other record nothing is written
--
-- Returns  {fence, seq, data, ms, now}: the record, with the token of who wrote it, its number, and
--          its remaining time to live in ms (-1: it has none), and the server's time, us since
--          1970; {0, 0, '', ms, now} if nothing has been written. The first record, once it is
--          there, is number 1 of this holder; or
--          {term} if a holder with a higher token, this one, has looked before: nothing is changed;
--          or
--          an error, and nothing is changed.
--
-- A record is "TERM FENCE SEQ", a line feed, and the data. TERM is the highest token that has
-- looked. Numbers in Lua are doubles: exact up to 2^53 - 1.

local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
	return value -- the error, such as WRONGTYPE, as the server words it
end

local mine = tonumber(ARGV[1])
local term, fence, seq, data = 0, '0', '0', ''
if value then
	if #value > 16777216 + 64 then -- 16 MiB of data: more than write.lua is ever given
		return redis.error_reply('LOCKBEAT the record ' .. KEYS[1] .. ' has ' .. #value .. ' bytes, more than any of ours; delete the key')
	end
	local t, f, s, rest = string.match(value, '^(%d+) (%d+) (%d+)\n()')
	if not t or #t > 16 or #f > 16 or #s > 16 then
		return redis.error_reply('LOCKBEAT the record ' .. KEYS[1] .. ' is damaged; delete the key')
	end
	term, fence, seq, data = tonumber(t), f, s, string.sub(value, rest)
end

if mine > 0 and term > mine then
	return {term}
end
local left = redis.call('PTTL', KEYS[1])
if ARGV[3] ~= '' and tonumber(fence) < mine and tonumber(fence) == tonumber(ARGV[4]) and
	tonumber(seq) == tonumber(ARGV[5]) then
	redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[1] .. ' 1\n' .. ARGV[3], 'PX', ARGV[2])
	term, fence, seq, data, left = mine, ARGV[1], '1', ARGV[3], tonumber(ARGV[2])
end
if term < mine then
	local ttl = ARGV[2]
	if left > 0 then
		ttl = left
	end
	redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. fence .. ' ' .. seq .. '\n' .. data, 'PX', ttl)
end
local time = redis.call('TIME')
return {tonumber(fence), tonumber(seq), data, left, time[1] * 1000000 + time[2]}
