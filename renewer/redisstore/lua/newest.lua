-- Notes which call is the newest that waits for a lock, of those of whom none but the newest is to
-- wait; and breaks the lease of another owner for it.
--
-- KEYS[1]  the lease: PREFIX{name}; on a cluster, the note as well, so that none is made in a slot
--          that is only arriving, beside the one to come
-- ARGV[1]  "wait"; "break": and break the lease; or "over": it does not wait any more
-- ARGV[2]  the owner token of the call, 22 bytes
-- ARGV[3]  its process: node and pid, a line each
-- ARGV[4]  since when it is noted, in us of the server's clock, by an earlier answer; "0" at first
-- ARGV[5]  time to live of the note, ms
-- ARGV[6]  what break.lua is to keep of who breaks the lease: "replaced", who and why, a line each
--
-- Returns  0 if another call is newer, or if it is over; or {since, process, value}: since when it
--          is noted; the process of the call that was noted before, "" if there is none; and the
--          value of the lease that it has broken, cut to 300 bytes, "" if it has broken none
--
-- The note is KEY:newest: owner, since and process, a line each. It stays when the call has the
-- lock, until it lapses: so that a call that came before, and could not ask since, is refused.

local lease, what, owner, process = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local key, since = lease .. ':newest', tonumber(ARGV[4])
local note = redis.pcall('GET', key)
if type(note) == 'table' then
	if not string.find(note.err, 'WRONGTYPE', 1, true) then
		return note
	end
	note = nil -- another program's, which is written over
end
local noted, from, before = string.match(note or '', '^([%w_-]+)\n(%d+)\n(.*)$')
if what == 'over' then
	if noted == owner then
		redis.call('DEL', key)
	end
	return 0
end

local time = redis.call('TIME')
local now = tonumber(time[1] .. string.sub('00000' .. time[2], -6))
from = from and #from <= 16 and tonumber(from) or 0
if from > now + 3600000000 then
	noted, from, before = nil, 0, nil -- no call has come an hour from now
end
local value = redis.pcall('GET', lease)
value = type(value) == 'string' and value or ''
local other = string.sub(value, 1, 22) ~= owner
if since ~= 0 and other then
	-- The call that has the lease may be newer: see holderText in codec.go.
	local granted, came = string.match(value .. '\n',
		'^[!%w_-]+\n%d+\n(%d+)\n[^\n]*\n%d+\n[^\n]*\n[^\n]*\nnewest (%d+)\n')
	came = came == '0' and granted or came
	if came and #came <= 16 and tonumber(came) > since then
		return 0
	end
end
if noted == owner then
	since, before = from, nil
elseif since == 0 then
	since = math.max(now, from + 1)
elseif from > since then
	return 0
end
redis.call('SET', key, owner .. '\n' .. string.format('%.0f', since) .. '\n' .. process, 'PX',
	ARGV[5])

local broken = ''
if what == 'break' and other then
	local token = string.match(value, '^[%w_-](' .. string.rep('[%w_-]', 21) .. ')\n%d+\n')
	if token then
		local left = math.max(redis.call('PTTL', lease), 1)
		redis.call('SET', lease .. ':broken:!' .. token, ARGV[6], 'PX', left)
		redis.call('SET', lease, '!' .. string.sub(value, 2), 'PX', left)
		broken = string.sub(value, 1, 300)
	end
end
return {since, before and string.sub(before, 1, 300) or '', broken}
