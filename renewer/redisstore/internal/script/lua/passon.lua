-- How release.lua and break.lua pass on the leases that are free: freed, positions in KEYS. It stands
-- there, and tells in its own lines, since each function that a script makes costs as much as a short
-- command. terms: "MODE INBOX MARKTTL MARK", see release.lua.

-- Grants each lease to the first live place, or frees it and tells all. A place that is to ask, or
-- for which no token is at hand, has the lease without one: see rule.lua.
local asMode, markTTL, markKey = string.match(terms, '^(%l*) %S* (%d+) (.*)$')
local cluster = asMode == 'shard'
local publish = cluster and redis.REDIS_VERSION_NUM and 'SPUBLISH' or 'PUBLISH'
for f = 1, #freed do
	local i = freed[f]
	local key, heard, token, top, nowText = KEYS[i], false, nil, nil, nil
	for _ = 1, asMode ~= '' and 500 or 0 do
		local first = redis.pcall('ZPOPMIN', key .. ':waiters')[1]
		if not first then
			break
		end
		local number, to, owner, ttl, asks, holder =
			string.match(first, '^(%d+) (%S+) (%S+) ([1-9]%d*)( ?)(\n.*)$')
		if number and #owner == 22 and #ttl < 13 then -- else none of our making
			if not token then
				local time = redis.call('TIME')
				nowText = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
				local digit = string.byte(nowText, 12) -- of 10000; to format a number costs more
				local carries = digit == 57 or #nowText ~= 16
				top = carries and string.format('%.0f', nowText + 10000) or
					string.sub(nowText, 1, 11) .. string.char(digit + 1) .. string.sub(nowText, 13)
				-- It keeps its time to live: what is put back lives as long as it was to.
				local mark = redis.pcall('SET', markKey, top, 'KEEPTTL', 'GET')
				if not mark then
					redis.call('SET', markKey, top, 'PX', markTTL)
					mark = redis.pcall('GET', key .. ':fence') and 'g0' or '0000000000000000'
				end
				token = '0'
				if type(mark) == 'string' and #mark == 16 and mark < top and
					string.find(mark, '^%d+$') then
					digit = string.byte(mark, 16)
					token = mark < nowText and nowText or digit == 57 and
						string.format('%.0f', mark + 1) or string.sub(mark, 1, 15) .. string.char(digit + 1)
					if carries then -- of ten times once, which is enough for one that lives for days
						redis.call('PEXPIRE', markKey, markTTL)
					end
				elseif type(mark) == 'string' then
					redis.call('SET', markKey, mark, 'KEEPTTL')
				end
			end
			local fence, message = asks == '' and token or '0', number
			if fence ~= '0' then
				message = number .. ' ' .. string.sub(owner, 1, 8) .. ' ' .. token .. ' ' .. top
			end
			heard = redis.pcall(publish, cluster and key .. ':inbox:' .. to or
				string.sub(key, 1, string.find(key, '{', 1, true)) .. to .. '}:inbox', message)
			heard = type(heard) == 'number' and
				(heard > 0 or cluster and publish == 'PUBLISH') -- where the server can't tell
			if heard then
				redis.call('SET', key, owner .. '\n' .. fence .. '\n' .. nowText .. holder .. '\n+',
					'PX', ttl)
				answers[#answers + 1] = (i == 1 and '1 ' or i .. ' ') .. ttl
				break
			end
		end
	end
	if not heard then
		if values[i] then -- a server that takes no writes may answer for one that is gone
			redis.call('DEL', key)
		end
		redis.call(publish, key .. ':freed', '')
	end
end
