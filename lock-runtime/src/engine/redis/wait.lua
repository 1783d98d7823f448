-- KEYS[4] the token's tombstone   ARGV[1] the token   ARGV[2] its ttl in milliseconds
-- ARGV[3] its process' channel    ARGV[4] for how many microseconds it counts as alive
-- ARGV[5] the server time after which this request is void; 0 for none
-- {0}: void. {1, ms}: the token gets the lock, for so long. {3, ms}: it had got it already.
-- {2, time, ms, ahead, length}: it waits; the server's time, how long the holder has it for, how many
-- stand before it, and how many in all.
local function left()
  local left = redis.call('PTTL', lock)
  -- A lock that never expires is not one of ours; to ask once an hour is enough.
  return left >= 0 and left or 3600000
end

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

local arrives = redis.call('HEXISTS', waiters, token) == 0
local alive = string.format('%.0f ', now + ARGV[4])
redis.call('HSET', waiters, token, alive .. ttl .. ' ' .. channel)
if arrives then
  local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', queue, (last or 0) + 1, token)
end
local stay = math.ceil(ARGV[4] / 1000) * 2
redis.call('PEXPIRE', queue, stay)
redis.call('PEXPIRE', waiters, stay)
local length = redis.call('ZCARD', queue)
local ahead = redis.call('ZRANK', queue, token)
if arrives and length == 2 then
  -- The other was alone so far, and its process may have passed the lock on within itself.
  local other = redis.call('ZRANGE', queue, 0, 0)[1]
  local _, _, theirs = waiter(other)
  tell(theirs, 'others ' .. other)
end
return {2, now, left(), ahead, length}
