local now = server_time()
local count, lowest = read_holders(now)
if not lease_of(ARGV[1]) then
  local limit = limit_of(ARGV[1])
  local is_free = count < math.min(limit, lowest)
  if not is_free or limit > 1 and ARGV[3] and is_blocked(ARGV[3], now) then
    -- A waiter ahead acquires a free lock soon.
    return {0, is_free and 100 or holder_ttl(now), holder_name()}
  end
  add_holder(ARGV[1], limit, tonumber(ARGV[2]), now, count)
end
if ARGV[3] then
  remove(ARGV[3])
end
return {1}
