-- Makes the keys of a limit live for so many ms at least. fresh: they have just been made.
local function lives(key, ms, fresh)
	local holders = key .. ':holders'
	if fresh or redis.call('PTTL', key) < tonumber(ms) then
		if type(redis.pcall('PEXPIRE', key, ms)) == 'table' then -- refused
			if fresh then
				redis.call('DEL', key, holders) -- or they would live for ever
			end
			redis.call('PEXPIRE', key, ms) -- says why
		end
	end
	if fresh or redis.call('PTTL', holders) < tonumber(ms) then
		redis.call('PEXPIRE', holders, ms)
	end
end
