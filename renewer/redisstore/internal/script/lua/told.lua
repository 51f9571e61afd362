-- Notes that the owner of a lease that is broken and not freed yet has heard so: a fourth line, "told",
-- in KEY:broken:TOKEN, once. It stands where lost.lua and slots_lost.lua name it. What a full server
-- refuses is noted by the next heartbeat.
if broken and string.find(how, '^%l+\n[^\n]*\n[^\n]*$') then
	redis.pcall('SET', key .. ':broken:' .. token, how .. '\ntold', 'XX', 'KEEPTTL')
end
