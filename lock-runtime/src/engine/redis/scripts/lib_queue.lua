-- The queue of a lock. KEYS[1] the lock   KEYS[2] its queue: tokens by order of arrival
-- KEYS[3] for each token in it: until when it counts as alive, its ttl, its process' channel
-- cluster, from the first line: who listens may do so at another server.
local lock, queue, waiters = KEYS[1], KEYS[2], KEYS[3]

local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function read_waiter(token)
  local known = redis.call('HGET', waiters, token) or '0 0 '
  local alive, ttl, channel = string.match(known, '^(%d+) (%d+) (.*)$')
  return tonumber(alive), ttl, channel
end

local function set_waiter(token, alive, ttl, channel)
  redis.call('HSET', waiters, token, string.format('%.0f ', alive) .. ttl .. ' ' .. channel)
end

local function first_in_queue()
  return redis.call('ZRANGE', queue, 0, 0)[1]
end

local function remove(token)
  redis.call('ZREM', queue, token)
  redis.call('HDEL', waiters, token)
end

-- Whether the waiter's process may have heard the message. `PUBLISH` also counts clients that listen to a
-- pattern, so only its zero says something; a refused command says nothing.
local function publish(channel, message)
  local heard = redis.pcall('PUBLISH', channel, message)
  if heard == 0 then
    return cluster
  end
  return cluster or redis.pcall('PUBSUB', 'NUMSUB', channel)[2] ~= 0
end

-- Tells the first in the queue that it is: the first asks more often than the others. A waiter that is dead,
-- or can't hear, leaves the queue.
local function notify_front(now)
  local first = first_in_queue()
  while first do
    local alive, _, channel = read_waiter(first)
    if alive > now and publish(channel, 'first ' .. first) then
      return
    end
    remove(first)
    first = first_in_queue()
  end
end

