-- KEYS[4] the token's tombstone   KEYS[5] the counter of fencing tokens   KEYS[6] in a cluster: a key that never exists, as
-- for a release
-- ARGV[1] the holder's token, as a view names it   ARGV[2] the tombstone's ttl in milliseconds; 0 for no tombstone, if the
-- token's client looks for none   ARGV[3] a number that the fencing token is not below
-- {held, fencing token}: 1 if the token held the lock until now. All numbers that are drawn later are greater, and all that
-- the token's holder has drawn are less
local token, now = ARGV[1], server_time()
-- If these fail, nothing has changed.
local last, kind = tonumber(redis.call('GET', KEYS[5]) or 0), redis.call('TYPE', lock).ok
local number = whole(math.max(last + 1, now, tonumber(ARGV[3])))
local front_changed = redis.call('ZRANK', queue, token) == 0
-- A server out of memory accepts this as the script's first write.
remove(token)
redis.call('SET', KEYS[5], number)
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[4], '', 'PX', ARGV[2])
end
local held, count, lowest = false, 1, 1
-- The text that stands for a key of a foreign type is no holder's.
if kind == 'none' or kind == 'string' or kind == 'zset' then
  held, count, lowest = release_holder(token, now)
end
pass_on(now, count, lowest, front_changed)
return {held and 1 or 0, number}
