-- After read_holders: returns the rest of the last lease in milliseconds, and true if it never ends.
local function holder_ttl(now)
  local ends = sole and sole_ends or last_end > 0 and last_end
  if ends then
    return ends - math.floor(now / 1000), false
  end
  local left = redis.call('PTTL', lock)
  -- A lock that never expires was not set by this library; polling it once an hour is enough.
  return left >= 0 and left or 3600000, left == -1
end

