-- KEYS[1] the lock. How long its holder has it for, in milliseconds.
local function holder_ttl()
  local left = redis.call('PTTL', KEYS[1])
  -- A lock that never expires is not one of ours; to ask once an hour is enough.
  return left >= 0 and left or 3600000
end

