-- Looks at locks, and changes nothing, so that a user who may only read can do it.
-- KEYS a lock, its queue, the next lock, its queue, …   ARGV[1] the greatest number of waiters to return for each
-- For each: {{token, ms, …}, {waiter, …}, length of the queue}; -1 ms: for ever; `?`: a value of a foreign type
local ms, views = math.floor(server_time() / 1000), {}
for n = 1, #KEYS, 2 do
  local lock, queue, holders = KEYS[n], KEYS[n + 1], {}
  local kind = redis.call('TYPE', lock).ok
  if kind == 'zset' then
    local found = redis.call('ZRANGE', lock, 0, -1, 'WITHSCORES')
    for i = 1, #found, 2 do
      local left = found[i + 1] % BAND - ms
      if left > 0 then
        table.insert(holders, found[i])
        table.insert(holders, left)
      end
    end
  elseif kind ~= 'none' then
    local token, left = kind == 'string' and redis.call('GET', lock) or '?', redis.call('PTTL', lock)
    if may_be_marked(token) and string.sub(token, -1) == MARK then
      token, left = string.sub(token, 1, -2), left < 0 and left or math.max(left - GRACE, 0)
    end
    if token ~= '::reserved' and left ~= 0 then
      holders = {token, left}
    end
  end
  views[#views + 1] = {holders, redis.call('ZRANGE', queue, 0, ARGV[1] - 1), redis.call('ZCARD', queue)}
end
return views
