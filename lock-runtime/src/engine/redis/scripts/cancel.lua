-- KEYS[1] the lock   KEYS[2] its queue   KEYS[3] its waiters' data
-- KEYS[4] the token's tombstone   KEYS[5] in a cluster: a key that never exists, as for a release
-- ARGV[1] the token   ARGV[2] the tombstone's ttl in milliseconds; 0 for no tombstone, if no request of the
-- token can still be in flight
-- 1: the token held the lock, which is granted to the next waiters or free. 0: it did not.
local now = server_time()
local front_changed = redis.call('ZRANK', queue, ARGV[1]) == 0
remove(ARGV[1])
local held, count, lowest = release_holder(ARGV[1], now)
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[4], '', 'PX', ARGV[2])
end
-- The waiters behind the token may fit beside the holders.
pass_on(now, count, lowest, front_changed)
return held and 1 or 0
