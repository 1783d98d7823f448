-- KEYS[1] the lock   KEYS[2] the counter   ARGV[1] the holder's token   ARGV[2] a fencing token
-- 1: no smaller one will be given out here. 0: the lock is not the holder's here.
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if tonumber(redis.call('GET', KEYS[2]) or 0) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2])
end
return 1
