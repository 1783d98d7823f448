-- ARGV[1] a token that stands in the queue of a quorum's member   ARGV[2] its ttl in milliseconds
-- ARGV[3] its process' channel   ARGV[4] for how many microseconds it counts as alive
-- ARGV[5] for how many one that is woken does
-- {ms, holder, ahead, length}: how long the holder has the lock for here, and its token, or 0 and nothing if
-- it is free; how many stand before the token, and how many in all.
local now = server_time()
local holder = redis.pcall('GET', lock)
if not holder then
  wake_before(ARGV[1], tonumber(ARGV[5]), now)
end
local ahead, length = enqueue(ARGV[1], ARGV[2], ARGV[3], ARGV[4], now)
if not holder then
  return {0, '', ahead, length}
end
return {holder_ttl(), type(holder) == 'string' and holder or '?', ahead, length}
