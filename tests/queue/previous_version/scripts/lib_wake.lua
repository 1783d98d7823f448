-- The lock is free, and yet tokens are ahead of this one in the queue: notifies them to poll at once. Each
-- counts as dead after `patience` microseconds unless it polls. Dead waiters leave the queue.
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

