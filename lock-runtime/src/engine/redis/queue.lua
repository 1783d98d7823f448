-- KEYS[1] the lock   KEYS[2] its queue: tokens by order of arrival
-- KEYS[3] for each token in it: until when it counts as alive, its ttl, its process' channel
local lock, queue, waiters = KEYS[1], KEYS[2], KEYS[3]

local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Gives the lock, which nobody holds, to the first in the queue who is alive.
local function hand_on()
  local first = redis.call('ZPOPMIN', queue)
  if not first[1] then
    return
  end
  local now = server_time()
  while first[1] do
    local token = first[1]
    local waiter = redis.call('HGET', waiters, token) or '0 0 '
    local alive, ttl, channel = string.match(waiter, '^(%d+) (%d+) (.*)$')
    redis.call('HDEL', waiters, token)
    if tonumber(alive) > now then
      local lease = math.min(tonumber(ttl), 2000)
      redis.call('SET', lock, token, 'PX', lease)
      local grant = string.format('grant %s %.0f %.0f %s', token, now, lease, lock)
      -- Heard by nobody: that process is gone.
      if redis.call('PUBLISH', channel, grant) > 0 then
        return
      end
      redis.call('DEL', lock)
    end
    first = redis.call('ZPOPMIN', queue)
  end
end

