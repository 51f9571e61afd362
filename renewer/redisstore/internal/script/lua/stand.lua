-- Gives a place in a lock's line its rank, by when it came first; nil beside a key of another type.
-- It stands in rule.lua and slots_claim.lua.
local line = lease .. ':waiters'
if since == '' then
	since = nowText
	local later = redis.pcall('ZRANGE', line, nowText, '+inf', 'BYSCORE', 'LIMIT', '0', '1')
	if later[1] then -- behind all who are there, also if the clock was set back since they came
		local tail = tonumber(redis.call('ZRANGE', line, '-1', '-1', 'WITHSCORES')[2])
		if tail < 9007199254740990 then
			since = string.format('%.0f', tail + 1)
		end
	end
elseif turn ~= '1000' then
	-- include line.lua
	leaveLine(lease, place) -- claims take longer than when it came: it asks for a longer turn
end
local added = redis.pcall('ZADD', line, 'NX', since, place .. turn)
if type(added) == 'number' then
	redis.call('PEXPIRE', line, lines)
	rank = tonumber(added == 1 and since or redis.call('ZSCORE', line, place .. turn))
elseif string.find(added.err, 'READONLY', 1, true) then
	redis.call('ZADD', line, 'NX', since, place .. turn) -- a replica: who waits must hear it
end
