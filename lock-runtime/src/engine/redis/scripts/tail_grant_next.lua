
-- Grants the lock, which nobody holds, to the first in the queue that is alive.
local function hand_on(now)
  local first = redis.call('ZPOPMIN', queue)[1]
  while first do
    local alive, ttl, channel = waiter(first)
    redis.call('HDEL', waiters, first)
    if alive > now then
      local lease = math.min(tonumber(ttl), 2000)
      redis.call('SET', lock, first, 'PX', lease)
      local times = string.format('%.0f %.0f ', now, lease)
      -- Heard by nobody: that process is gone.
      if tell(channel, 'grant ' .. first .. ' ' .. times .. lock) then
        return tell_first(now)
      end
      redis.call('DEL', lock)
    end
    first = redis.call('ZPOPMIN', queue)[1]
  end
end

if vacant then
  hand_on(server_time())
elseif moved_up then
  tell_first(server_time())
end
return answer
