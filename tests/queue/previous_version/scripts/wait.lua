-- KEYS[4] the token's tombstone   ARGV[1] the token   ARGV[2] its ttl in milliseconds
-- ARGV[3] its process's channel   ARGV[4] for how many microseconds it counts as alive
-- ARGV[5] for how many a woken waiter does
-- ARGV[6] the server time after which this request is void; 0 for none
-- {0}: void. {1, ms}: the token acquires the lock, for that long. {3, ms}: it held the lock already.
-- {2, time, ms, ahead, length}: it waits; the server's time, the rest of the holder's lease, the number of
-- tokens ahead of it, and of all in the queue
local token, ttl, channel, patience = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5])
local now = server_time()
local void_after = tonumber(ARGV[6])
if (void_after > 0 and now > void_after) or redis.call('EXISTS', KEYS[4]) == 1 then
  return {0}
end

-- A key of another type is an error here, and counts as held by another client.
local holder = redis.pcall('GET', lock)
local is_free = not holder
if is_free then
  -- A server out of memory accepts this as the script's first write.
  redis.call('DEL', lock)
  wake_before(token, patience, now)
end
if is_free or holder == '::reserved' then
  local first = first_in_queue()
  if not first or first == token then
    remove(token)
    redis.call('SET', lock, token, 'PX', ttl)
    return {1, tonumber(ttl)}
  end
  if is_free then
    -- Until the woken waiters have polled or count as dead, newcomers cannot acquire the lock.
    redis.call('SET', lock, '::reserved', 'PX', math.ceil(patience / 1000) + 10)
  end
end
if holder == token then
  return {3, holder_ttl()}
end

local ahead, length = enqueue(token, ttl, channel, ARGV[4], now)
return {2, now, holder_ttl(), ahead, length}
