-- Gives a place in a line its rank, by when it came first; nil beside a key of another type. It stands
-- in rule.lua and slots_claim.lua.
--
-- A rank that is in the future is of a clock that was set back since. It is made anew, so that those
-- who come now are before it until it asks next, and no longer.
local line = lease .. ':waiters'
local how = #since == 16 and since > nowText and 'CH' or 'NX'
if how == 'CH' or #since < 2 then
	since = nowText
end
local added = redis.pcall('ZADD', line, how, since, place)
if type(added) == 'number' then
	redis.call('PEXPIRE', line, lines)
	rank = tonumber(added == 1 and since or redis.call('ZSCORE', line, place))
elseif string.find(added.err, 'READONLY', 1, true) then
	redis.call('ZADD', line, 'NX', nowText, place) -- a replica: who waits must hear it
else -- a full server refuses it, though it may stand there already
	local stands = redis.pcall('ZSCORE', line, place)
	rank = type(stands) == 'string' and tonumber(stands) or nil
end
