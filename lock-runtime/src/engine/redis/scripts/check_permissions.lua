-- KEYS[1] a key that never exists   ARGV[1] a channel of this process
-- Calls every command that the other scripts call, without any effect. Returns an error that names the first
-- command that the server does not know, or that the user may not call, or nothing.
local key = KEYS[1]
local calls = {
  {'get', key}, {'mget', key}, {'set', key, '', 'XX', 'PX', 1}, {'del', key}, {'exists', key},
  {'pexpire', key, 1}, {'pexpireat', key, 1}, {'pttl', key}, {'time'}, {'type', key},
  {'zadd', key, 'XX', 1, ''}, {'zcard', key}, {'zpopmin', key}, {'zrange', key, 0, 0},
  {'zrangebyscore', key, 0, 0}, {'zrevrangebyscore', key, 0, 0}, {'zremrangebyscore', key, 0, 0},
  {'zrank', key, ''}, {'zrem', key, ''}, {'zscore', key, ''},
  -- A field without its value, so nothing is written.
  {'hset', key, '', '', ''}, {'hget', key, ''}, {'hdel', key, ''}, {'hexists', key, ''},
  {'publish', ARGV[1], ''},
}
for _, call in ipairs(calls) do
  local reply = redis.pcall(unpack(call))
  local words = type(reply) == 'table' and reply.err or ''
  -- Each version of the server words these differently.
  if string.find(words, 'nknown') and string.find(words, 'command') then
    return redis.error_reply('ERR unknown command `' .. call[1] .. '`')
  end
  if string.find(words, 'NOPERM') or string.find(words, 'ACL failure')
    or string.find(words, 'The user executing the script') then
    return redis.error_reply('NOPERM ' .. call[1] .. ': ' .. words)
  end
end
return false
