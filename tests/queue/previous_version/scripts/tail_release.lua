-- Locks without a holder are granted too: their leases have expired. A key of another type has none either,
-- and is not free.
for i = 1, count do
  lock, queue, waiters = KEYS[i], KEYS[count + i], KEYS[2 * count + i]
  if (digits[i] == '1' or not holders[i]) and redis.call('EXISTS', queue) == 1
    and redis.call('EXISTS', lock) == 0 then
    pass_on(true, false)
  end
end
return answer
