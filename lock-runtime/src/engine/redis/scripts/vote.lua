-- KEYS[1] the lock   ARGV[1] the token   ARGV[2] its ttl in milliseconds
-- For a claim that waits or shares the lock also: KEYS[2] the queue   KEYS[3] its waiters' data   ARGV[3] the
-- queue token, or nothing if it does not wait. They are left out to restore a token that a majority stores.
-- {1}: the token holds the lock here. {0, ms, holder}: another one does, for that long.
-- The most frequent call needs no table: one exclusive claim that does not wait, and a free lock.
if #ARGV == 2 and not string.find(ARGV[1], '/', 1, true) and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return {1}
end
