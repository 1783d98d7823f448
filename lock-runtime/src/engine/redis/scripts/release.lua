-- KEYS the locks, then their queues, then their waiters' data; in a cluster one lock, and last a key that never
-- exists, so that a node that the slot is leaving executes no part of this
-- ARGV the holders' tokens
-- A string with a digit for each lock. 1: the token held the lock, which is granted to the next waiters or free.
-- 0: it did not.
local count = #ARGV
-- The most frequent call needs no table: one lock, one holder, no queue.
if count == 1 and redis.pcall('GET', KEYS[1]) == ARGV[1] and redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('DEL', KEYS[1])
  return '1'
end
local values = redis.call('MGET', unpack(KEYS, 1, count))
local digits, held, shared = {}, {}, false
for i = 1, count do
  local holds = values[i] == ARGV[i]
  if not holds and values[i] == ARGV[i] .. MARK then
    local left = redis.call('PTTL', KEYS[i])
    holds = left < 0 or left > GRACE
  end
  if holds then
    digits[i] = '1'
    held[#held + 1] = KEYS[i]
  else
    digits[i] = '0'
    -- Several holders are no string.
    shared = shared or string.find(ARGV[i], '/', 1, true)
  end
end
if #held > 0 then
  redis.call('DEL', unpack(held))
end
if not shared and redis.call('EXISTS', unpack(KEYS, count + 1, 2 * count)) == 0 then
  return table.concat(digits)
end
