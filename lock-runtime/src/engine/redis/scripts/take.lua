-- KEYS[2i-1] a lock   KEYS[2i] its queue   ARGV[1] the ttl in milliseconds   ARGV[1+i] the token for the i-th lock
-- Acquires one lock after the other until one is not available. Returns the number of locks acquired.
local count, taken = #ARGV - 1, 0
while taken < count and redis.call('SET', KEYS[2 * taken + 1], ARGV[taken + 2], 'NX', 'PX', ARGV[1]) do
  taken = taken + 1
end
if taken == count or not string.find(ARGV[taken + 2], '/', 1, true) then
  return taken
end
