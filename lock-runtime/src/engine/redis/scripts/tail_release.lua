-- Locks without a holder are granted too: their leases have ended. A key of another type has none either, and is not
-- free.
local now = server_time()
for i = 1, count do
  lock, queue, waiters = KEYS[i], KEYS[count + i], KEYS[2 * count + i]
  local others, lowest
  if digits[i] == '0' then
    local was_holder
    was_holder, others, lowest = release_holder(ARGV[i], now)
    digits[i] = was_holder and '1' or '0'
  elseif redis.call('EXISTS', lock) == 0 then
    -- Unless an earlier release of the same lock in this call has granted it.
    others, lowest = 0, math.huge
  end
  if others and redis.call('EXISTS', queue) == 1 then
    pass_on(now, others, lowest, false)
  end
end
return table.concat(digits)
