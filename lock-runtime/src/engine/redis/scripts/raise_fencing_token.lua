-- KEYS[1] the lock   KEYS[2] the counter   ARGV[1] the holder's token   ARGV[2] a fencing token
-- 1: this server will return no smaller one. 0: the token does not hold the lock here.
read_holders(server_time())
if not lease_of(ARGV[1]) then
  return 0
end
if tonumber(redis.call('GET', KEYS[2]) or 0) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2])
end
return 1
