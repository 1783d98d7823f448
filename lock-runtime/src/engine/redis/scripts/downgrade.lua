-- KEYS as for a release   ARGV[1] the token of an exclusive holder   ARGV[2] the token that shares the lock from
-- now on   ARGV[3] its ttl in milliseconds
-- The number of milliseconds for which the second token holds the lock; 0: the first one did not hold it. A
-- repeated call prolongs nothing.
local now = server_time()
read_holders(now)
local ends = lease_of(ARGV[2])
if ends then
  return ends - math.floor(now / 1000)
end
if sole ~= ARGV[1] then
  return 0
end
local limit, ttl = limit_of(ARGV[2]), tonumber(ARGV[3])
-- This overwrites the first token.
add_holder(ARGV[2], limit, ttl, now, 0)
grant_next(now, 1, limit)
return ttl
