-- KEYS[1] the lock   KEYS[2] its queue   KEYS[3] its waiters' data
-- KEYS[4] the token's tombstone   KEYS[5] in a cluster: a key that never exists, as for a release
-- ARGV[1] the token   ARGV[2] the tombstone's ttl in milliseconds; 0 for no tombstone, if no request of the
-- token can still be in flight
-- 1: the token held the lock, which is granted to the next waiter or free. 0: it did not.
local front_changed = redis.call('ZRANK', KEYS[2], ARGV[1]) == 0
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
local holder = redis.pcall('GET', KEYS[1])
local held = holder == ARGV[1]
if held then
  redis.call('DEL', KEYS[1])
end
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[4], '', 'PX', ARGV[2])
end
local answer = held and 1 or 0
local is_free = held or not holder
