-- KEYS[1] the lock   KEYS[2] the counter   ARGV[1] the holder's token
-- A number greater than any before, or nothing if the lock is not the holder's.
-- A counter that was lost starts again from the server's time in microseconds, which lies ahead of
-- every number given out so far as long as fewer than one a microsecond are.
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
  return false
end
local now = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
local token = math.max(last + 1, now[1] * 1000000 + now[2])
redis.call('SET', KEYS[2], string.format('%.0f', token))
return token
