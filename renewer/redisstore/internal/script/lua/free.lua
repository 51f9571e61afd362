-- Frees a lease for which nobody waits, as release.lua does, with less: the usual end of one that was
-- claimed by native commands.
--
-- KEYS[1]    the lease
-- ARGV[1]    owner token
--
-- Returns    1; or 0 if it has changed nothing: another owner has the lease, or nobody, or it is
--            waited for (rule.lua). Then release.lua says, and does, what is to be done.
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'string' and string.sub(value, 1, 22) == ARGV[1] and
	string.sub(value, -2) ~= '\n+' then
	return redis.call('DEL', KEYS[1])
end
return 0
