-- Gives a lock to an owner unless another owner has it, with a fencing token that the client gives:
-- for a client that has several servers agree on it.
--
-- KEYS[1]    the lease: PREFIX{name}
-- ARGV[1-7]  as in acquire.lua, of one lease; the place is ""
-- ARGV[8]    the fencing token, in decimal, below 2^53
-- ARGV[9]    how many tokens above it are to be the owner's too, in decimal
--
-- Returns what rule.lua answers; and {counter} if nobody else has the lock, but ARGV[8] is neither
-- above this nor the token that the owner has it with.
--
-- The tokens of each name have a counter of their own, KEY:fence, as they come from other servers'
-- clocks: they don't raise the mark, by which those of other names would be refused. As long as
-- there may be one, the mark begins with "g".

local ttl, markKey = ARGV[1], ARGV[3]
local time = redis.call('TIME')
local nowText = time[1] .. string.sub('00000' .. time[2], -6)
local now = tonumber(nowText)
local proposed, reserve = ARGV[8], tonumber(ARGV[9])
local lease, owner, from, holder = KEYS[1], ARGV[5], ARGV[6], ARGV[7]
-- include rule.lua
