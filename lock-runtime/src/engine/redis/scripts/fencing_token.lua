-- KEYS[1] the lock   KEYS[2] the counter   ARGV[1] the holder's token
-- Returns a number greater than all before it, or nothing if the token does not hold the lock.
-- A counter that was lost restarts from the server's time in microseconds. That is ahead of every number
-- returned so far, as long as these were fewer than one per microsecond.
local now = server_time()
read_holders(now)
if not lease_of(ARGV[1]) then
  return false
end
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
local token = math.max(last + 1, now)
redis.call('SET', KEYS[2], whole(token))
return token
