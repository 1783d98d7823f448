-- KEYS[1] the lock   ARGV[1] the holder's token
-- 1: it was the holder's, and is free. 0: it was not the holder's. Nobody in the queue is told.
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
