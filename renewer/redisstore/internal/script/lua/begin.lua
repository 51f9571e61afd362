-- Gives a lock to an owner unless another owner has it, or a newer call has had it: for a call that
-- gives way to newer ones.
--
-- KEYS[1]    the lease: PREFIX{name}; on a cluster, with a place, the line; and there KEY:begun,
--            so that none is made in a slot that is only arriving, beside the one to come
-- ARGV[1-7]  as in acquire.lua, of one lease
-- ARGV[8]    the call's rank, in decimal; "0" for none
-- ARGV[9]    when the call was made, in us of the server's clock, by an answer of newest.lua; "0"
--            if none was given
-- ARGV[10]   how long ago that was, in us, if ARGV[9] is "0"
-- ARGV[11]   time to live of KEY:begun, ms
--
-- Returns 0 if a newer call has had the lock, and otherwise what rule.lua answers. With a grant it
-- writes KEY:begun: see order.lua.

local ttl, markKey = ARGV[1], ARGV[3]
local time = redis.call('TIME')
local nowText = time[1] .. string.sub('00000' .. time[2], -6)
local now = tonumber(nowText)
local proposed, reserve -- of propose.lua alone
-- include order.lua
local function claim(lease, owner, from, holder)
	-- include rule.lua
end

local lease, rank, since = KEYS[1], ARGV[8], tonumber(ARGV[9])
if since == 0 then
	since = math.max(now - tonumber(ARGV[10]), 1)
end
local last, lastSince, failed = lastBegun(lease, now)
if failed then
	return failed
end
local old = late(rank, since, last, lastSince)
if old then
	local value = redis.pcall('GET', lease)
	if type(value) ~= 'string' or string.sub(value, 1, 22) ~= ARGV[5] or
		string.sub(value, 23, 25) == '\n0\n' then -- kept for the place
		return 0 -- else the reply to an earlier try was lost
	end
end

local answer = claim(lease, ARGV[5], ARGV[6], ARGV[7])
if not old and (type(answer) == 'number' or #answer == 2) then
	local life = tonumber(ARGV[11])
	if rank == '0' and last ~= '0' then
		rank, life = last, math.max(life, redis.call('PTTL', lease .. ':begun'))
	end
	redis.call('SET', lease .. ':begun',
		rank .. '\n' .. string.format('%.0f', math.max(since, lastSince)), 'PX', life)
end
return answer
