-- ARGV[1] a token that waits in the queue of a quorum member   ARGV[2] its ttl in milliseconds
-- ARGV[3] its process's channel   ARGV[4] for how many microseconds it counts as alive
-- ARGV[5] for how many a woken waiter does
-- {ms, holder, ahead, length}: the rest of the holder's lease here, and its token, or 0 and nothing if the
-- token may hold the lock; the number of tokens ahead of this one, and of all in the queue
local token, alive_for, patience = ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[5])
local now = server_time()
local count, lowest = read_holders(now)
local limit = limit_of(token)
local function fits(other)
  return count < math.min(limit_of(other), lowest)
end
local passes_in
if count == 0 then
  wake_before(token, patience, now)
elseif fits(token) then
  passes_in = pass_silent(token, fits, alive_for, patience, now)
end
local ahead, length = enqueue(token, ARGV[2], ARGV[3], alive_for, now)
if fits(token) and not (limit > 1 and is_blocked(token, now)) then
  return {0, '', ahead, length}
end
-- A waiter ahead acquires a free lock soon.
local left = count > 0 and holder_ttl(now) or 100
return {math.min(left, passes_in or left), holder_name(), ahead, length}
