-- How long a waiter at the front that cannot enter may be silent while waiters behind it could.
local MAX_SILENCE = 3000000

-- Notifies a waiter to poll at once. It counts as dead after `patience` microseconds unless it polls. Returns
-- false if it is dead already; then it leaves the queue.
local function wake(token, patience, now)
  local alive, ttl, channel = read_waiter(token)
  if alive > now and publish(channel, 'free ' .. token) then
    set_waiter(token, math.min(alive, now + patience), ttl, channel)
    return true
  end
  remove(token)
  return false
end

-- Wakes the waiters ahead of this one, which may enter before it.
local function wake_before(token, patience, now)
  for _, other in ipairs(redis.call('ZRANGE', queue, 0, 99)) do
    if other == token then
      return
    end
    wake(other, patience, now)
  end
end

-- Wakes the waiters at the front that cannot enter beside the holders and have not polled for long: they may be
-- dead, and the waiters behind them could enter. `alive_for`: for how long a poll makes a waiter count as alive.
-- Returns true if one has been woken.
local function wake_silent(token, fits, alive_for, patience, now)
  local first = first_in_queue()
  while first and first ~= token and not fits(first) do
    local alive = read_waiter(first)
    if now + alive_for - alive < MAX_SILENCE then
      return false
    end
    if wake(first, patience, now) then
      return true
    end
    first = first_in_queue()
  end
  return false
end

