-- KEYS the locks   ARGV[2i-1] the token of the i-th, ARGV[2i] its ttl in milliseconds
-- For each: 1 if the token holds the lock, whose whole ttl is restored; 0 if not.
local renewed = {}
for i, key in ipairs(KEYS) do
  if redis.pcall('GET', key) == ARGV[2 * i - 1] then
    renewed[i] = redis.call('PEXPIRE', key, ARGV[2 * i])
  else
    renewed[i] = 0
  end
end
return renewed
