-- Notes which call is the newest that waits for a lock, of those that give way to newer ones; and
-- breaks the lease of another owner for it.
--
-- KEYS[1]  the lease: PREFIX{name}; on a cluster, the note and KEY:begun as well, so that none is
--          made in a slot that is only arriving, beside the one to come, and both are read
-- ARGV[1]  "wait"; "break": and break the lease; or "over": it does not wait any more
-- ARGV[2]  the owner token of the call, 22 bytes
-- ARGV[3]  its process: node and pid, a line each
-- ARGV[4]  its rank, in decimal; "0" for none
-- ARGV[5]  when it was made, in us of the server's clock, by an earlier answer; "0" at first
-- ARGV[6]  how long ago that was, in us, if ARGV[5] is "0"
-- ARGV[7]  time to live of the note, ms
-- ARGV[8]  what break.lua is to keep of who breaks the lease: "replaced", who and why, a line each
--
-- Returns  0 if another call is newer, or if it is over; or {since, process, value}: when it was
--          made; the process of the call that was noted before, "" if there is none; and the
--          value of the lease that it has broken, cut to 300 bytes, "" if it has broken none
--
-- The note is KEY:newest: owner, since, rank and process, a line each. It stays when the call has
-- the lock, until it lapses.

-- include order.lua

local lease, what, owner, process = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local key, rank, since = lease .. ':newest', ARGV[4], tonumber(ARGV[5])
local note = redis.pcall('GET', key)
if type(note) == 'table' then
	if not string.find(note.err, 'WRONGTYPE', 1, true) then
		return note
	end
	note = nil -- another program's, which is written over
end
local noted, from, notedRank, before =
	string.match(note or '', '^([%w_-]+)\n(%d+)\n(%d+)\n(.*)$')
if what == 'over' then
	if noted == owner then
		redis.call('DEL', key)
	end
	return 0
end

local time = redis.call('TIME')
local now = tonumber(time[1] .. string.sub('00000' .. time[2], -6))
from = from and #from <= 16 and #notedRank <= 19 and tonumber(from) or 0
if from == 0 or from > now + 3600000000 then
	noted, from, before = nil, 0, nil -- no call has come an hour from now
end
if noted == owner then
	since, before = from, nil
else
	if since == 0 then
		since = math.max(now - tonumber(ARGV[6]), 1)
		if since == from or from > now then -- two in one us, or a clock that was set back
			since = from + 1
		end
	end
	if noted and older(rank, since, notedRank, from) then
		return 0
	end
end
local value = redis.pcall('GET', lease)
value = type(value) == 'string' and value or ''
local other = string.sub(value, 1, 22) ~= owner
local last, lastSince, failed = lastBegun(lease, now)
if failed then
	return failed
end
if other and late(rank, since, last, lastSince) then
	return 0
end
redis.call('SET', key, table.concat({owner, string.format('%.0f', since), rank, process}, '\n'),
	'PX', ARGV[7])

local broken = ''
if what == 'break' and other then
	local token = string.match(value, '^[%w_-](' .. string.rep('[%w_-]', 21) .. ')\n%d+\n')
	if token then
		local left = math.max(redis.call('PTTL', lease), 1)
		redis.call('SET', lease .. ':broken:!' .. token, ARGV[8], 'PX', left)
		redis.call('SET', lease, '!' .. string.sub(value, 2), 'PX', left)
		broken = string.sub(value, 1, 300)
	end
end
return {since, before and string.sub(before, 1, 300) or '', broken}
