-- KEYS[4] the token's tombstone   ARGV[1] the token   ARGV[2] its ttl in milliseconds
-- ARGV[3] its process' channel    ARGV[4] for how many microseconds it counts as alive
-- ARGV[5] for how many one that is woken does
-- ARGV[6] the server time after which this request is void; 0 for none
-- {0}: void. {1, ms}: the token gets the lock, for so long. {3, ms}: it had got it already.
-- {2, time, ms, ahead, length}: it waits; the server's time, how long the holder has it for, how many
-- stand before it, and how many in all.
local token, ttl, channel, patience = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5])
local now = server_time()
local void_after = tonumber(ARGV[6])
if (void_after > 0 and now > void_after) or redis.call('EXISTS', KEYS[4]) == 1 then
  return {0}
end

-- A key of another kind is an error here, and so somebody's.
local holder = redis.pcall('GET', lock)
local is_free = not holder
if is_free then
  -- A write that a full server allows as the first one.
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
    -- Until those that were woken have asked, or count as dead, newcomers can't take it.
    redis.call('SET', lock, '::reserved', 'PX', math.ceil(patience / 1000) + 10)
  end
end
if holder == token then
  return {3, holder_ttl()}
end

local ahead, length = enqueue(token, ttl, channel, ARGV[4], now)
return {2, now, holder_ttl(), ahead, length}
