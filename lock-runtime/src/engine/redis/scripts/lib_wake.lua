-- How long a waiter at the front that cannot enter may be silent while waiters behind it could. It polls every half
-- second.
local MAX_SILENCE = 1500000

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

-- After how many milliseconds the token may enter if the waiters at the front, which cannot enter beside the holders, are
-- dead; nothing if there are none. One whose process is gone leaves the queue. If the first has been silent for too long,
-- all ahead of the token are woken. `alive_for`: for how long a poll makes a waiter count as alive.
local function pass_silent(token, fits, alive_for, patience, now)
  local first = first_in_queue()
  while first and first ~= token and not fits(first) do
    local alive, _, channel = read_waiter(first)
    local silent_at = alive - alive_for + MAX_SILENCE
    if alive <= now or not hears(channel) then
      remove(first)
      first = first_in_queue()
    elseif silent_at > now then
      return math.ceil((silent_at - now) / 1000)
    else
      if alive > now + patience then
        wake_before(token, patience, now)
      end
      return math.ceil(patience / 1000) + 10
    end
  end
end
