-- KEYS[1] the lock   KEYS[2] its queue   KEYS[3] what is known of those in it
-- KEYS[4] in a cluster: a key that is never there, so that no part of this is done by a node that its
-- slot is leaving
-- ARGV[1] the holder's token
-- 1: it was the holder's, and has been passed on or is free. 0: it was not the holder's.
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
