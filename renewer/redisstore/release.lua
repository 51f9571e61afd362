-- Frees the leases that their owners still have, or lets them lapse after a given time, and tells those who wait for them.
--
-- KEYS[i]    the leases, at most 100
-- ARGV[1]    time that they stay held, ms; 0: none
-- ARGV[1+i]  owner token of KEYS[i], 22 bytes
-- ARGV[2+n]  of n keys: "shard" if there is a cluster, of which only the key's own shard is to be bothered with the message, as far as
--            the server can do so (Redis 7); otherwise absent
--
-- Returns    the exceptions only, in order of i:
--            i if another owner has KEYS[i], -i if nobody has. Those keys are left as they are.
--
-- Publishes an empty message on KEYS[i]:freed for each key that it frees, or whose time it sets: who waits may ask how long.

local keep = tonumber(ARGV[1])
local publish = 'PUBLISH'
if ARGV[#KEYS + 2] == 'shard' and redis.REDIS_VERSION_NUM then -- which Redis 6 does not have
	publish = 'SPUBLISH'
end

local values = redis.call('MGET', unpack(KEYS))
local lost = {}
for i = 1, #KEYS do
	local value, owner = values[i], ARGV[i + 1]
	if not value then
		lost[#lost + 1] = -i
	elseif string.sub(value, 1, 22) ~= owner then
		lost[#lost + 1] = i
	elseif keep > 0 then
		redis.call('PEXPIRE', KEYS[i], keep)
		redis.call(publish, KEYS[i] .. ':freed', '')
	elseif redis.call('DEL', KEYS[i]) == 0 then -- freed above already: the same lease twice in one call
		lost[#lost + 1] = -i
	else
		redis.call(publish, KEYS[i] .. ':freed', '')
	end
end
return lost
