-- Enters a token in the queue, or refreshes its entry: its ttl in milliseconds, its process's channel, and
-- for how many microseconds it counts as alive. Returns the number of tokens ahead of it, and of all in the
-- queue.
local function enqueue(token, ttl, channel, alive, now)
  local is_new = redis.call('HEXISTS', waiters, token) == 0
  set_waiter(token, now + alive, ttl, channel)
  if is_new then
    local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
    redis.call('ZADD', queue, (last or 0) + 1, token)
  end
  local queue_ttl = math.ceil(alive / 1000) * 2
  redis.call('PEXPIRE', queue, queue_ttl)
  redis.call('PEXPIRE', waiters, queue_ttl)
  local length = redis.call('ZCARD', queue)
  if is_new and length == 2 then
    -- The other waiter was alone so far, and its process may have passed the lock on by local handoff.
    local other = first_in_queue()
    local _, _, other_channel = read_waiter(other)
    publish(other_channel, 'others ' .. other)
  end
  return redis.call('ZRANK', queue, token), length
end

