-- KEYS[4] the token's tombstone   ARGV[1] the token   ARGV[2] its ttl in milliseconds
-- ARGV[3] its process's channel   ARGV[4] for how many microseconds it counts as alive
-- ARGV[5] for how many a woken waiter does
-- ARGV[6] the server time after which this request is void; 0 for none
-- {0}: void. {1, ms}: the token acquires the lock, for that long. {3, ms}: it held the lock already.
-- {2, time, ms, ahead, length}: it waits; the server's time, the time until a lease ends that is in its way, the
-- number of tokens ahead of it, of all in the queue, and the only holder, if there is one. If the key is not that of a
-- lock, that is a number: 1 if it never expires, 2 if it has a foreign type
local token, ttl, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local alive_for, patience = tonumber(ARGV[4]), tonumber(ARGV[5])
local now = server_time()
local ms = math.floor(now / 1000)
local void_after = tonumber(ARGV[6])
if (void_after > 0 and now > void_after) or redis.call('EXISTS', KEYS[4]) == 1 then
  return {0}
end

local count, lowest = read_holders(now)
local ends = lease_of(token)
if ends then
  return {3, ends == true and holder_ttl(now) or ends - ms}
end
local limit = limit_of(token)
local is_free, is_reserved, passes_in = count == 0, sole == '::reserved', nil
if is_reserved then
  count, lowest = 0, math.huge
end
local function fits(other)
  return count < math.min(limit_of(other), lowest)
end
if fits(token) then
  -- A server out of memory accepts this as the script's first write.
  redis.call('ZREM', queue, '')
  if not is_reserved then
    passes_in = pass_silent(token, fits, alive_for, patience, now)
    local first = first_in_queue()
    if not passes_in and first and first ~= token and fits(first) then
      wake_before(token, patience, now)
      passes_in = math.ceil(patience / 1000) + 10
    end
  end
  local first = first_in_queue()
  if not first or first == token then
    remove(token)
    add_holder(token, limit, ttl, now, count)
    grant_next(now, count + 1, math.min(lowest, limit))
    return {1, ttl}
  end
  if is_free then
    -- Until the woken waiters have polled or count as dead, newcomers cannot acquire the lock.
    redis.call('SET', lock, '::reserved', 'PX', math.ceil(patience / 1000) + 10 + GRACE)
  end
end

local ahead, length = enqueue(token, ttl, channel, alive_for, now)
local left, never_ends = holder_ttl(now)
if sole and not outlasts and not never_ends and may_be_marked(sole) then
  redis.call('SET', lock, sole .. MARK, 'PX', left + GRACE)
end
local holder = sole == '?' and 2 or sole and never_ends and 1 or sole or ''
if limit > 1 and first_end and not is_free then
  left = math.min(left, first_end - ms)
end
return {2, now, math.min(left, passes_in or left), ahead, length, holder}
