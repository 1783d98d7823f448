-- KEYS[4] the token's tombstone   ARGV[1] the token   ARGV[2] how long the tombstone stands, in
-- milliseconds; 0 for none, when no request of the token can still be on its way
-- 1: the lock had been granted to it, and has been passed on. 0: it had not.
redis.call('ZREM', queue, ARGV[1])
redis.call('HDEL', waiters, ARGV[1])
local holder = redis.call('GET', lock)
local held = holder == ARGV[1]
if held then
  redis.call('DEL', lock)
end
if held or not holder then
  hand_on()
end
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[4], '', 'PX', ARGV[2])
end
return held and 1 or 0
