-- KEYS the locks, then their queues, then their waiters' data; in a cluster one lock, and last a key that never
-- exists, so that a node that the slot is leaving executes no part of this
-- ARGV the holders' tokens
-- A string with a digit for each lock. 1: the token held the lock, which is granted to the next waiter or free.
-- 0: it did not.
local count = #ARGV
local holders = redis.call('MGET', unpack(KEYS, 1, count))
local digits, held = {}, {}
for i = 1, count do
  digits[i] = holders[i] == ARGV[i] and '1' or '0'
  if digits[i] == '1' then
    held[#held + 1] = KEYS[i]
  end
end
if #held > 0 then
  redis.call('DEL', unpack(held))
end
local answer = table.concat(digits)
if redis.call('EXISTS', unpack(KEYS, count + 1, 2 * count)) == 0 then
  return answer
end
