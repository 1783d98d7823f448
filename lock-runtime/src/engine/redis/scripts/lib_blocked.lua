-- Returns true if an exclusive waiter that is alive is ahead of the token in the queue, or anywhere in it if the
-- token does not wait: a quorum member admits no reader before it.
local function is_blocked(token, now)
  for _, other in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    if other == token then
      return false
    end
    if limit_of(other) == 1 and read_waiter(other) > now then
      return true
    end
  end
  return false
end

-- After read_holders: the token of an exclusive holder, or `?` for one or more that share the lock, so that all
-- members report the same.
local function holder_name()
  return sole and limit_of(sole) == 1 and sole or '?'
end

