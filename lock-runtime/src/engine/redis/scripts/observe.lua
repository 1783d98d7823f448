-- ARGV[1] a token that waits in the queue of a quorum member   ARGV[2] its ttl in milliseconds
-- ARGV[3] its process's channel   ARGV[4] for how many microseconds it counts as alive
-- ARGV[5] for how many a woken waiter does
-- {ms, holder, ahead, length}: the rest of the holder's lease here, and its token, or 0 and nothing if the
-- lock is free; the number of tokens ahead of this one, and of all in the queue
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
