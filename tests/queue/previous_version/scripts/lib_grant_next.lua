
-- Grants the lock, which is free, to the first waiter that is alive.
local function grant_next(now)
  local first = redis.call('ZPOPMIN', queue)[1]
  while first do
    local alive, ttl, channel = read_waiter(first)
    redis.call('HDEL', waiters, first)
    if alive > now then
      local lease = math.min(tonumber(ttl), 2000)
      redis.call('SET', lock, first, 'PX', lease)
      local times = string.format('%.0f %.0f ', now, lease)
      -- Without a subscriber, the waiter's process is gone.
      if publish(channel, 'grant ' .. first .. ' ' .. times .. lock) then
        return notify_front(now)
      end
      redis.call('DEL', lock)
    end
    first = redis.call('ZPOPMIN', queue)[1]
  end
end

local function pass_on(is_free, front_changed)
  if is_free then
    grant_next(server_time())
  elseif front_changed then
    notify_front(server_time())
  end
end

