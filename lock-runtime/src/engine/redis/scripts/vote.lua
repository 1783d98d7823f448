-- KEYS[1] the lock   ARGV[1] the token   ARGV[2] its ttl in milliseconds
-- And if it stands in the queue: KEYS[2] the queue   KEYS[3] what is known of those in it   ARGV[3] as what
-- {1}: the lock is the token's here. {0, ms, holder}: it is another's, for so long.
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
