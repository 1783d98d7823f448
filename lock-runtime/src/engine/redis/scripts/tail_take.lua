local ttl, now = tonumber(ARGV[1]), server_time()
while taken < count do
  local token = ARGV[taken + 2]
  lock = KEYS[2 * taken + 1]
  if not redis.call('SET', lock, token, 'NX', 'PX', ttl) then
    local limit = limit_of(token)
    -- A newcomer passes no waiter.
    if limit == 1 or redis.call('EXISTS', KEYS[2 * taken + 2]) == 1 then
      return taken
    end
    local others, lowest = read_holders(now)
    if others >= math.min(limit, lowest) or lease_of(token) then
      return taken
    end
    add_holder(token, limit, ttl, now, others)
  end
  taken = taken + 1
end
return taken
