
-- Notifies the first waiter, and if it shares the lock, those right behind it that do.
local function pass_on(now, count, lowest, front_changed)
  if not front_changed and count >= lowest then
    return
  end
  notify_front(now)
  local tokens = redis.call('ZRANGE', queue, 0, 99)
  if not tokens[1] or limit_of(tokens[1]) == 1 then
    return
  end
  for n = 2, #tokens do
    if limit_of(tokens[n]) == 1 then
      return
    end
    local _, _, channel = read_waiter(tokens[n])
    publish(channel, 'first ' .. tokens[n])
  end
end

