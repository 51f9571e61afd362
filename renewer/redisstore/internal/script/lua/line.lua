-- Places in a limit's line: see tell.lua.

-- Takes a place, "NUMBER INBOX ", out of the line, however long a turn it asked for when it came.
local function leaveLine(key, place)
	redis.pcall('ZREM', key .. ':waiters', place .. '1000', place .. '2000', place .. '4000',
		place .. '8000', place .. '16000', place .. '32000')
end
