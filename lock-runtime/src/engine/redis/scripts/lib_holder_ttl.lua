-- KEYS[1] the lock. Returns the rest of its holder's lease in milliseconds, and true if it never expires.
local function holder_ttl()
  local left = redis.call('PTTL', KEYS[1])
  -- A lock that never expires was not set by this library; polling it once an hour is enough.
  return left >= 0 and left or 3600000, left == -1
end

