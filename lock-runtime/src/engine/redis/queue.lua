-- The queue of a lock. KEYS[1] the lock   KEYS[2] its queue: tokens by order of arrival
-- KEYS[3] for each token in it: until when it counts as alive, its ttl, its process' channel
-- cluster, from the first line: who listens may do so at another server.
local lock, queue, waiters = KEYS[1], KEYS[2], KEYS[3]

local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function waiter(token)
  local known = redis.call('HGET', waiters, token) or '0 0 '
  return string.match(known, '^(%d+) (%d+) (.*)$')
end

-- Whether anybody may have heard it.
local function tell(channel, message)
  return redis.call('PUBLISH', channel, message) > 0 or cluster
end

-- Whoever is first now hears of it: the first asks more often than the others. One who can't hear is
-- gone.
local function tell_first()
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  while first do
    local _, _, channel = waiter(first)
    if tell(channel, 'first ' .. first) then
      return
    end
    redis.call('ZREM', queue, first)
    redis.call('HDEL', waiters, first)
    first = redis.call('ZRANGE', queue, 0, 0)[1]
  end
end

-- Gives the lock, which nobody holds, to the first in the queue who is alive. The asker, if there is one,
-- will be answered.
local function hand_on(asker, now)
  local first = redis.call('ZPOPMIN', queue)[1]
  if not first then
    return
  end
  now = now or server_time()
  while first do
    local alive, ttl, channel = waiter(first)
    redis.call('HDEL', waiters, first)
    if tonumber(alive) > now then
      local lease = math.min(tonumber(ttl), 2000)
      redis.call('SET', lock, first, 'PX', lease)
      local times = string.format('%.0f %.0f ', now, lease)
      local grant = 'grant ' .. first .. ' ' .. times .. lock
      -- Heard by nobody: that process is gone.
      if first == asker or tell(channel, grant) then
        return tell_first()
      end
      redis.call('DEL', lock)
    end
    first = redis.call('ZPOPMIN', queue)[1]
  end
end

