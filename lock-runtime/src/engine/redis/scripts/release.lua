-- KEYS[1] the lock   KEYS[2] its queue   KEYS[3] its waiters' data
-- KEYS[4] in a cluster: a key that never exists, so that a node that the slot is leaving executes no part of
-- this
-- ARGV[1] the holder's token
-- 1: the token held the lock, which is granted to the next waiter or free. 0: it did not.
local holder = redis.pcall('GET', KEYS[1])
local held = holder == ARGV[1]
if held then
  redis.call('DEL', KEYS[1])
end
local answer = held and 1 or 0
local is_free, front_changed = held or not holder, false
if not is_free or redis.call('EXISTS', KEYS[2]) == 0 then
  return answer
end
