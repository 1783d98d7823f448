-- The lock is free, and yet in the queue: whoever stands before the token is to ask at once, and counts as
-- dead after that many microseconds unless it does. The dead leave the queue.
local function wake_before(token, patience, now)
  for _, other in ipairs(redis.call('ZRANGE', queue, 0, 99)) do
    if other == token then
      return
    end
    local alive, ttl, channel = read_waiter(other)
    if alive > now and publish(channel, 'free ' .. other) then
      set_waiter(other, math.min(alive, now + patience), ttl, channel)
    else
      remove(other)
    end
  end
end

