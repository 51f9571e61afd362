-- Notes how many callers of an owner's process wait for the lease there, for those who look at it. It
-- stands in renew.lua and slots_renew.lua, behind their writes: so a full server does not refuse it.

-- The value of a lease with that number as its eighth line: see value.go. What stands behind it, and
-- the "+" at the end, stay. A value that is not ours, being longer, stays as it is.
local function withCallers(value, callers)
	if #value >= 290 then
		return value
	end
	local mark = string.sub(value, -2) == '\n+' and '\n+' or ''
	local lines = {}
	for line in string.gmatch(string.sub(value, 1, #value - #mark) .. '\n', '([^\n]*)\n') do
		lines[#lines + 1] = line
	end
	for n = #lines + 1, 7 do
		lines[n] = ''
	end
	lines[8] = callers
	return table.concat(lines, '\n') .. mark
end
