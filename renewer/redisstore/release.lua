-- Frees the leases that their owners still have, or lets them lapse after a given time, and tells
-- those who wait for them. A lease with a line of waiters is the turn of the first of them, for a
-- moment in which to claim it: see tell.lua.
--
-- KEYS[i]    the leases, n of them, at most 100
-- ARGV[1]    time that they stay held, ms; 0: none
-- ARGV[2]    "MODE TTL INBOX MARK": the mode, see tell.lua; the mark, see acquire.lua, and its time
--            to live in ms; and the inbox of the places, see tell.lua
-- ARGV[2+i]  owner token of KEYS[i], 22 bytes; if further fencing tokens may have been reserved,
--            right behind it the highest one used, in decimal: those above it, but not the one
--            granted, are given back; and if a place is given up with it, a space and its number.
--            22 spaces are no owner's: they pass on a turn that has lapsed
--
-- Returns    the exceptions, in order of i: i if another owner has KEYS[i], or another program, and
--            behind it the key's value, as renew.lua does; -i if nobody has.
--            Another owner's key is left as it is; one that is gone was deleted or has lapsed, and
--            goes to the next as if it had been freed: nobody else tells them. So does one that is
--            a turn that has lapsed. Behind them, "i TURN" for each lease that has become a turn.
--
-- Tells one place that its turn has come; if the lease stays held, the first 32. If there is none,
-- it publishes on KEYS[i]:freed an empty message for all who wait without one. A lease that is not
-- waited for (acquire.lua) is freed without a look for waiters.

local n = #KEYS

-- The usual cases first, and by few steps: one lease, which is not waited for, or whose first place
-- lives. The rest of this script says the same at length.
if n == 1 and ARGV[1] == '0' and #ARGV[3] == 22 then
	local key = KEYS[1]
	local value = redis.pcall('GET', key)
	if type(value) == 'string' and string.sub(value, 1, 22) == ARGV[3] then
		if string.sub(value, -2) ~= '\n+' then
			redis.call('DEL', key)
			return {}
		end
		local mode = string.match(ARGV[2], '^%l*')
		local cluster = mode == 'shard'
		if not cluster or redis.REDIS_VERSION_NUM then
			local first = mode ~= '' and redis.pcall('ZPOPMIN', key .. ':waiters')[1]
			if not first then
				redis.call('DEL', key)
				redis.call(cluster and 'SPUBLISH' or 'PUBLISH', key .. ':freed', '')
				return {}
			end
			local number, inbox, turn = string.match(first, '^(%d+) ([%w_-]+) ([1-9]%d?000)$')
			local heard
			if number and not cluster then
				local channel = string.match(key, '^[^{]*{') .. inbox .. '}:inbox'
				heard = redis.pcall('PUBLISH', channel, number)
			elseif number then
				heard = redis.pcall('SPUBLISH', key .. ':inbox:' .. inbox, number)
			end
			if type(heard) == 'number' and heard > 0 then
				redis.call('SET', key, 'turn\n' .. turn .. '\n' .. first, 'PX', 3 * turn)
				return {'1 ' .. turn}
			end
		end
	end
end

-- So with many, none of which is waited for.
if n > 1 and ARGV[1] == '0' then
	local values = redis.call('MGET', unpack(KEYS))
	local usual, seen = true, {}
	for i = 1, n do
		local key, value = KEYS[i], values[i]
		if not value or seen[key] or string.sub(value, 1, 22) ~= ARGV[2 + i] or
			string.sub(value, -2) == '\n+' then
			usual = false
			break
		end
		seen[key] = true
	end
	if usual then
		redis.call('DEL', unpack(KEYS))
		return {}
	end
end

-- include tell.lua
-- include lost.lua

local asMode, markTTL, inbox, mark = string.match(ARGV[2], '^(%l*) (%d+) ([%w_-]*) (.*)$')
local keep = tonumber(ARGV[1])
setMode(asMode)

-- Makes a lease the turn of the first live place, and returns how long that is in ms; or returns
-- nil.
local function pass(key)
	for _ = 1, 500 do
		local first = mode ~= '' and redis.pcall('ZPOPMIN', key .. ':waiters')[1]
		if not first then
			return nil
		end
		local turn = string.match(first, ' (%d+)$')
		if tell(key, first) then
			redis.call('SET', key, 'turn\n' .. turn .. '\n' .. first, 'PX', 3 * tonumber(turn))
			return turn
		end
	end
end

-- Frees lease i, and notes its turn among the answers if it becomes one. One that is gone is passed
-- on alone: what MGET does not show may be another program's key.
local function free(answers, i, key, gone)
	local turn = (not gone or redis.pcall('EXISTS', key) == 0) and pass(key)
	if turn then
		answers[#answers + 1] = i .. ' ' .. turn
		return
	elseif not gone then
		redis.call('DEL', key)
	elseif string.find(ARGV[i + 2], '^ ') then
		return -- the turn was used, and the owner who had the lease since has told them
	end
	tellAll(key)
end

local function number(text)
	local digits = type(text) == 'string' and #text <= 16 and string.match(text, '^%d+$')
	return digits and tonumber(digits) or nil
end

-- Gives back the tokens above used. The mark takes the place of KEY:ahead, which may have lapsed
-- already, as the clock has reached those that were used: it may be set back yet. What cannot be
-- done, as the slot is moving, is left to lapse.
local function giveBack(key, value, used)
	local granted = number(string.match(value, '^[^\n]*\n(%d+)\n'))
	if not granted then
		return
	end
	local most = math.max(granted, used)
	local text = string.format('%.0f', most)
	local given = number(redis.pcall('GET', key .. ':fence'))
	local ahead = number(redis.pcall('GET', key .. ':ahead'))
	if given and given > most then
		redis.call('SET', key .. ':fence', text, 'KEEPTTL')
	end
	if not ahead and (most == granted or given and given >= most) then
		return
	end
	local high = redis.pcall('GET', mark)
	if high and not number(high) then
		return
	end
	high = number(high)
	if high and high < granted and (ahead or given) then
		-- The name has run ahead of the mark, which must not follow it.
		redis.call('SET', key .. (ahead and ':ahead' or ':fence'), text, 'KEEPTTL')
		return
	elseif not high and mode == 'shard' then
		-- It may be on the way here, as this key was, and must not meet another one.
		if ahead then
			redis.call('SET', key .. ':ahead', text, 'KEEPTTL')
		end
		return
	elseif (not high or high < most) and redis.pcall('SET', mark, text, 'PX', markTTL).err then
		return
	end
	redis.pcall('DEL', key .. ':ahead')
end

local values = redis.call('MGET', unpack(KEYS))
local freed, gone, over, answers = {}, {}, {}, {}
for i = 1, n do
	local key, value = KEYS[i], not over[KEYS[i]] and values[i]
	local owner, rest = string.sub(ARGV[i + 2], 1, 22), string.sub(ARGV[i + 2], 23)
	local used, place = string.match(rest, '^(%d*) ?(%d*)$')
	if place ~= '' and mode ~= '' then
		place = place .. ' ' .. inbox .. ' '
		leaveLine(key, place)
		if value and hasTurn(value, place) then
			freed[#freed + 1] = i
			over[key], value = true, nil
		end
	end
	if value and string.sub(value, 1, 22) == owner then
		if used ~= '' then
			giveBack(key, value, tonumber(used))
		end
		if keep > 0 then
			redis.call('PEXPIRE', key, keep)
			wake(key, 32) -- who leaves the line before then tells none of the others
		else
			freed[#freed + 1] = i
			over[key] = true -- if it comes again in this call, it is nobody's
		end
	else
		if over[key] then
			answers[#answers + 1] = -i
		else
			answerLost(answers, i, key, value)
		end
		if not over[key] and not value then
			over[key] = true -- once for all who find it gone
			gone[#gone + 1] = i
		elseif value and lapsed(key, value) then
			over[key] = true
			redis.call('DEL', key)
			if not passOver(key) then
				tellAll(key)
			end
		end
	end
end
for _, i in ipairs(freed) do
	free(answers, i, KEYS[i], false)
end
for _, i in ipairs(gone) do
	free(answers, i, KEYS[i], true)
end
return answers
