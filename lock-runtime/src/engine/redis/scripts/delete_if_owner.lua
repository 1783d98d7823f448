-- KEYS[1] the lock   ARGV[1] the holder's token
-- 1: the token held the lock, which is free now. 0: it did not. No waiter is notified.
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
