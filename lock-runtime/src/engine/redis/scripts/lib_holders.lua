-- The holders of a lock. One holder alone is a string: its token, perhaps marked. Several holders are a sorted set of their
-- tokens. A token that shares the lock ends in `/` and its limit, the greatest number of holders while it is one
-- of them, itself included; 2047 stands for any number. A score is limit * 2^42 + the server time in milliseconds
-- at which the lease ends, and the key expires after the last lease.
local lock, UNLIMITED, BAND = KEYS[1], 2047, 2 ^ 42
-- A UUID of version 8, the only kind of token of those clients.
local KNOWS_MARKS = '^%x%x%x%x%x%x%x%x%x%x%x%x8%x%x%x[89ab]'
-- The mark of new holders, which scripts that know of waiters set.
local mark = ''

local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function whole(number)
  return string.format('%.0f', number)
end

local function limit_of(token)
  local limit = tonumber(string.match(token, '^%x+/(%d+)$') or 1)
  if limit == UNLIMITED then
    return math.huge
  end
  return limit > 1 and limit < UNLIMITED and limit or 1
end

-- Returns true if the holder's client knows marks. Another client would not recognize its token.
local function may_be_marked(token)
  return string.find(token, KNOWS_MARKS) ~= nil
end

-- Set by read_holders: the token of a holder that is a string, the end of its lease if it shares the lock or is marked,
-- and whether its key outlasts the lease; among holders that share, the first end of a lease, and the last one.
local sole, sole_ends, outlasts, first_end, last_end

-- Returns the number of holders, and the lowest of their limits. Holders whose leases have ended are removed.
local function read_holders(now)
  local kind, ms = redis.call('TYPE', lock).ok, math.floor(now / 1000)
  sole, sole_ends, outlasts, first_end, last_end = nil, nil, false, nil, 0
  if kind == 'none' then
    return 0, math.huge
  end
  if kind ~= 'zset' then
    -- A key of a foreign type counts as an exclusive holder.
    sole = kind == 'string' and redis.call('GET', lock) or '?'
    if may_be_marked(sole) and string.sub(sole, -1) == MARK then
      sole, outlasts = string.sub(sole, 1, -2), true
    end
    outlasts = outlasts or sole == '::reserved'
    local limit = limit_of(sole)
    if limit > 1 or outlasts then
      local left = redis.call('PTTL', lock)
      if left < 0 then
        return 1, 1
      end
      sole_ends = ms + left - (outlasts and GRACE or 0)
      if sole_ends <= ms then
        sole = nil
        redis.call('DEL', lock)
        return 0, math.huge
      end
      first_end = limit > 1 and sole_ends or nil
    end
    return 1, limit
  end
  -- The scores of each limit form one band, the lowest limit first. Scores that this library never writes are
  -- left alone.
  local lowest, from = nil, 2 * BAND
  while from do
    local top = whole((UNLIMITED + 1) * BAND - 1)
    local score = redis.call('ZRANGEBYSCORE', lock, whole(from), top, 'WITHSCORES', 'LIMIT', 0, 1)[2]
    from = nil
    if score then
      local limit, ends = math.floor(score / BAND), score % BAND
      if ends <= ms then
        from = limit * BAND
        redis.call('ZREMRANGEBYSCORE', lock, whole(from), whole(from + ms))
      else
        top = '(' .. whole((limit + 1) * BAND)
        local last = redis.call('ZREVRANGEBYSCORE', lock, top, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
        last_end = math.max(last_end, last % BAND)
        lowest, first_end = lowest or limit, math.min(first_end or ends, ends)
        from = limit < UNLIMITED and (limit + 1) * BAND
      end
    end
  end
  local count = redis.call('ZCARD', lock)
  if count > 0 and not lowest then
    return count, 1
  end
  return count, (lowest or UNLIMITED) == UNLIMITED and math.huge or lowest
end

-- After read_holders: the end of the token's lease in milliseconds, or true for an exclusive holder; nil or false
-- if the token does not hold the lock.
local function lease_of(token)
  if sole then
    return sole == token and (sole_ends or true)
  end
  local score = last_end > 0 and redis.call('ZSCORE', lock, token)
  return score and score % BAND
end

-- After read_holders: makes the token a holder beside `count` others.
local function add_holder(token, limit, lease, now, count)
  local ends = limit > 1 and math.floor(now / 1000) + lease or nil
  first_end = ends and math.min(first_end or ends, ends)
  if count == 0 then
    outlasts = mark == MARK and may_be_marked(token)
    redis.call('SET', lock, outlasts and token .. MARK or token, 'PX', outlasts and lease + GRACE or lease)
    sole, sole_ends, last_end = token, ends, 0
    return
  end
  local function add(token, limit, ends)
    redis.call('ZADD', lock, whole(math.min(limit, UNLIMITED) * BAND + ends), token)
    -- The key may expire before the last lease ends, if another client wrote it.
    local left = redis.call('PTTL', lock)
    if ends > last_end or left >= 0 and left < ends + GRACE - math.floor(now / 1000) then
      redis.call('PEXPIREAT', lock, whole(ends + GRACE))
    end
    last_end = math.max(last_end, ends)
  end
  if sole then
    -- A server that refuses one of the next commands does so while the holder is still stored.
    redis.call('PEXPIREAT', lock, whole(outlasts and sole_ends + GRACE or sole_ends))
    if not string.find(redis.pcall('ZADD', lock, 'XX', 1, '').err, 'WRONGTYPE', 1, true) then
      redis.call('ZADD', lock, 'XX', 1, '')
    end
    redis.call('DEL', lock)
    add(sole, limit_of(sole), sole_ends)
    sole = nil
  end
  add(token, limit, ends)
end

-- After read_holders: makes the token no holder any more.
local function drop_holder(token)
  if sole == token then
    sole = nil
    redis.call('DEL', lock)
  elseif last_end > 0 then
    redis.call('ZREM', lock, token)
  end
end

-- Releases the lock that the token holds. Returns true if it did, then the number of the other holders and the
-- lowest of their limits.
local function release_holder(token, now)
  local count, lowest = read_holders(now)
  if not lease_of(token) then
    return false, count, lowest
  end
  drop_holder(token)
  if count == 1 then
    return true, 0, math.huge
  end
  count, lowest = read_holders(now)
  if count > 0 then
    redis.call('PEXPIREAT', lock, whole(last_end + GRACE))
  end
  return true, count, lowest
end

