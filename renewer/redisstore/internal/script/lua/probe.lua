-- Calls every command that the other scripts call, in a way that changes nothing, to learn whether
-- the server lets us.
--
-- KEYS[1]  a lease that no lock's name can have
-- KEYS[2]  its fence counter
-- KEYS[3]  another such lease, in another slot; given only to what is believed to be no cluster,
--          which would refuse that
-- ARGV[1]  mode: see tell.lua
-- ARGV[2]  "line": call only what lines of waiters need besides; or absent
--
-- Returns  an empty array if all of them are let through, or
--          {command, error} for the first that is not.

-- include tell.lua
setMode(ARGV[1])
local calls = {
	{'GET', KEYS[1]},
	{'MGET', KEYS[1], KEYS[2]},
	{'PTTL', KEYS[1]},
	{'TIME'},
	{'PEXPIRE', KEYS[1], 1},
	{'SET', KEYS[1], '', 'XX', 'PX', 1}, -- XX: only if it exists, which it does not
	{'DEL', KEYS[1]},
	{publish, KEYS[1] .. ':freed', ''},
}
if ARGV[2] == 'line' then
	calls = {
		{'ZADD', KEYS[1], 'XX', 'GT', 0, ''}, -- XX: only if it is there; GT: since Redis 6.2
		{'ZPOPMIN', KEYS[1]},
		{'ZREM', KEYS[1], ''},
		{'ZRANGE', KEYS[1], 0, 0},
		{'ZSCORE', KEYS[1], ''},
		{'EXISTS', KEYS[1]},
		{publish, KEYS[1] .. ':inbox', ''},
	}
end
for _, call in ipairs(calls) do
	local reply = redis.pcall(unpack(call))
	if type(reply) == 'table' and reply.err then
		return {call[1], reply.err}
	end
end
return {}
