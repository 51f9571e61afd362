-- Tells one process that a lease of its own may have been broken.
--
-- KEYS[1]  the channel of that process: PREFIX{NODE PID}:process
-- ARGV[1]  the key of the lease
-- ARGV[2]  the mode: see tell.lua
--
-- Returns  how many heard it

-- include tell.lua
setMode(ARGV[2])
return redis.call(publish, KEYS[1], ARGV[1])
