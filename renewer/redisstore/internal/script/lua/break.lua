-- Breaks the lease that has a given fencing token: its owner can't renew it from now on, and frees
-- it when its operation has returned. By force it is freed at once.
--
-- KEYS[1]  the lease: PREFIX{name}
-- ARGV[1]  the fencing token, in decimal
-- ARGV[2]  "broken", "forced" or "replaced", and behind it who and why, a line each
-- ARGV[3]  "MODE INBOX MARKTTL MARK", as for release.lua
--
-- Returns  0 if no owner has it; {value, 0} if another token is current, or another program's key is
--          there; {value, 1} if it is broken now, also if it was before; and "1 MS" behind these
--          if it was granted on, for so long. A value is cut to 300 bytes. An error, if of the lease and its
--          note only one has moved in a cluster: a second note would be in its way
--
-- The owner token of a broken lease begins with "!", which none does. So the scripts that compare
-- it need not know of this. Who and why is in KEY:broken:TOKEN, by that token, for as long as the
-- lease would have lived: see lost.lua.

local key, how = KEYS[1], ARGV[2]
local value = redis.pcall('GET', key)
if type(value) == 'table' then
	return string.find(value.err, 'WRONGTYPE', 1, true) and {'', 0} or value
elseif not value then
	return 0
end
local token, fence = string.match(value, '^[!%w_-](' .. string.rep('[%w_-]', 21) .. ')\n(%d+)\n')
local text = string.sub(value, 1, 300)
if fence ~= ARGV[1] then
	return {text, 0}
end
local forced = string.sub(how, 1, 7) == 'forced\n'
local first, note = string.sub(value, 1, 1) ~= '!', key .. ':broken:!' .. token
if not first and forced and redis.pcall('MGET', key, note).err then
	return redis.error_reply('TRYAGAIN the keys of ' .. key .. ' are moving')
end
if forced or first then
	local left = math.max(redis.call('PTTL', key), 1)
	redis.call('SET', note, how, 'PX', left)
	redis.call('SET', key, '!' .. string.sub(value, 2), 'PX', left)
end
local answers = {text, 1}
if forced then
	if string.sub(value, -2) == '\n+' then
		local values, freed, terms = {value}, {1}, ARGV[3]
		-- include passon.lua
	else
		redis.call('DEL', key)
	end
end
return answers
