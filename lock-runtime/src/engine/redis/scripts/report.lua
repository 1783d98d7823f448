-- KEYS[1] the reports by process   KEYS[2] the server times in milliseconds at which they were stored, by process
-- ARGV[1] a process   ARGV[2] its report   ARGV[3] the lifetime of a report in milliseconds
-- Stores the report in place of the earlier one, and removes some whose lifetime is over.
local time, lifetime = redis.call('TIME'), tonumber(ARGV[3])
local ms = time[1] * 1000 + math.floor(time[2] / 1000)
-- Before the first write: if the server refuses it, nothing is left that never expires.
redis.call('PEXPIRE', KEYS[2], lifetime)
redis.call('ZADD', KEYS[2], string.format('%.0f', ms), ARGV[1])
redis.call('PEXPIRE', KEYS[2], lifetime)
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], lifetime)
local before = string.format('%.0f', ms - lifetime)
for _, process in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', before, 'LIMIT', 0, 100)) do
  redis.call('ZREM', KEYS[2], process)
  redis.call('HDEL', KEYS[1], process)
end
