-- KEYS the locks   ARGV[2i-1] the token of the i-th, ARGV[2i] its ttl in milliseconds
-- A digit for each: 1 if the token holds the lock, and its whole ttl is restored; 0 if not.
local renewed, shorter, now = {}, {}, nil

-- Returns the error of a command, unless it is that the key is of another type. A command that is refused says
-- nothing about the holder.
local function refusal(reply)
  return type(reply) == 'table' and not string.find(reply.err, 'WRONGTYPE', 1, true) and reply
end

for i, key in ipairs(KEYS) do
  local token, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  local holder = redis.pcall('GET', key)
  renewed[i] = 0
  if holder == token then
    renewed[i] = redis.call('PEXPIRE', key, ttl)
  elseif holder == token .. MARK then
    local left = redis.call('PTTL', key)
    if left < 0 or left > GRACE then
      renewed[i] = redis.call('PEXPIRE', key, ttl + GRACE)
    end
  elseif refusal(holder) then
    return holder
  elseif type(holder) == 'table' and string.find(token, '/', 1, true) then
    -- One of several holders: see lib_holders.lua.
    local score = redis.pcall('ZSCORE', key, token)
    if refusal(score) then
      return score
    end
    if not now then
      local time = redis.call('TIME')
      now = time[1] * 1000 + math.floor(time[2] / 1000)
    end
    if type(score) == 'string' and score % 2 ^ 42 > now then
      -- First the command that a server out of memory accepts.
      local left = math.max(redis.call('PTTL', key), ttl + GRACE)
      redis.call('PEXPIREAT', key, string.format('%.0f', now + left))
      redis.call('ZADD', key, 'XX', string.format('%.0f', score - score % 2 ^ 42 + now + ttl), token)
      renewed[i] = 1
      if score % 2 ^ 42 > now + ttl then
        shorter[#shorter + 1] = key
      end
    end
  end
end
-- One string: 200 numbers cost the client, and the server, a reply each.
if #shorter == 0 then
  return table.concat(renewed)
end
