-- How release.lua passes on the leases that are free: freed, positions in KEYS. It stands there, and
-- tells in its own lines, since each function that a script makes costs as much as a short command.

-- Makes each lease the turn of the first live place, or frees it and tells all.
local cluster = asMode == 'shard'
local publish = cluster and redis.REDIS_VERSION_NUM and 'SPUBLISH' or 'PUBLISH'
for _, i in ipairs(freed) do
	local key, turn, first, heard = KEYS[i], nil, nil, false
	for _ = 1, asMode ~= '' and 500 or 0 do
		first = redis.pcall('ZPOPMIN', key .. ':waiters')[1]
		if not first then
			break
		end
		local number, to, ms = string.match(first, '^(%d+) ([%w_-]+) ([1-9]%d?000)$')
		if number then -- else none of our making
			heard = redis.pcall(publish, cluster and key .. ':inbox:' .. to or
				string.match(key, '^[^{]*{') .. to .. '}:inbox', number)
			heard = type(heard) == 'number' and
				(heard > 0 or cluster and publish == 'PUBLISH') -- where the server can't tell
			turn = ms
		end
		if heard then
			break
		end
	end
	if heard then
		redis.call('SET', key, 'turn\n' .. turn .. '\n' .. first, 'PX', 3 * turn)
		answers[#answers + 1] = i .. ' ' .. turn
	else
		if values[i] then -- a server that takes no writes may answer for one that is gone
			redis.call('DEL', key)
		end
		-- A turn that was used: the owner who had the lease since has told them.
		if values[i] or string.sub(ARGV[i + 2], 1, 1) ~= ' ' then
			redis.call(publish, key .. ':freed', '')
		end
	end
end
