-- The queue of a lock. KEYS[1] the lock   KEYS[2] its queue: tokens in order of arrival
-- KEYS[3] for each token in it: until when it counts as alive, its ttl, its process's channel
-- cluster, from the first line: a subscriber may be connected to another server.
local queue, waiters = KEYS[2], KEYS[3]

local function read_waiter(token)
  local known = redis.call('HGET', waiters, token) or ''
  -- A waiter whose data is missing, or was written by another client, counts as dead.
  local alive, ttl, channel = string.match(known, '^(%d+) ([1-9]%d*) (.*)$')
  return tonumber(alive or 0), ttl, channel or ''
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

-- Returns false if no process subscribes to the channel. A rejected command is not conclusive.
local function hears(channel)
  return cluster or redis.pcall('PUBSUB', 'NUMSUB', channel)[2] ~= 0
end

-- Returns true if the waiter's process may have received the message. `PUBLISH` also counts clients that
-- subscribe to a pattern, so only its zero is conclusive; a rejected command is not.
local function publish(channel, message)
  local heard = redis.pcall('PUBLISH', channel, message)
  if heard == 0 then
    return cluster
  end
  return hears(channel)
end

-- Notifies the first waiter that it is at the front, where it polls more often. Waiters that are dead or not
-- subscribed leave the queue.
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

