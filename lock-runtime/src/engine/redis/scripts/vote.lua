-- KEYS[1] the lock   ARGV[1] the token   ARGV[2] its ttl in milliseconds
-- For a claim that waits also: KEYS[2] the queue   KEYS[3] its waiters' data   ARGV[3] the queue token
-- {1}: the token holds the lock here. {0, ms, holder}: another one does, for that long.
local holder = redis.pcall('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return {0, holder_ttl(), type(holder) == 'string' and holder or '?'}
end
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
if ARGV[3] then
  redis.call('ZREM', KEYS[2], ARGV[3])
  redis.call('HDEL', KEYS[3], ARGV[3])
end
return {1}
