-- KEYS[4] the token's tombstone   ARGV[1] the token   ARGV[2] its ttl in milliseconds
-- ARGV[3] its process' channel    ARGV[4] for how many microseconds it counts as alive
-- ARGV[5] the server time after which this request is void; 0 for none
-- {0}: void. {1, ms}: the token gets the lock, for so long. {3, ms}: it had got it already.
-- {2, time, ms, ahead, length}: it waits; the server's time, how long the holder has it for, how many
-- stand before it, and how many in all.
local token, ttl, channel = ARGV[1], ARGV[2], ARGV[3]
local now = server_time()
local void_after = tonumber(ARGV[5])
if (void_after > 0 and now > void_after) or redis.call('EXISTS', KEYS[4]) == 1 then
  return {0}
end

-- A key of another kind is an error here, and so somebody's.
local holder = redis.pcall('GET', lock)
if not holder then
  -- Whoever is first, and alive; those who died in the queue fall out of it.
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  if first and first ~= token then
    hand_on(token, now)
    holder = redis.call('GET', lock)
  end
  if not holder then
    redis.call('ZREM', queue, token)
    redis.call('HDEL', waiters, token)
    redis.call('SET', lock, token, 'PX', ttl)
    return {1, tonumber(ttl)}
  end
end
if holder == token then
  return {3, left()}
end

local ahead, length = stand(token, ttl, channel, ARGV[4], now)
return {2, now, left(), ahead, length}
