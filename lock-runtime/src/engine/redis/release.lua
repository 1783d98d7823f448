-- ARGV[1] the holder's token
-- 1: it was the holder's, and has been passed on or is free. 0: it was not the holder's.
local holder = redis.call('GET', lock)
if holder == ARGV[1] then
  redis.call('DEL', lock)
  hand_on()
  return 1
end
if not holder then
  hand_on()
end
return 0
