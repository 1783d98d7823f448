-- The greatest number of grants in one call, so that no call takes long.
local MAX_GRANTS = 100

-- The keys of new holders outlast their leases: others may wait for them.
mark = MARK

-- Grants the lock to the first waiter that is alive, and to those right behind it, as long as each fits beside
-- the `count` holders whose lowest limit is `lowest`, and beside one another. Returns true if any waiter has left
-- the queue.
local function grant_next(now, count, lowest)
  local changed, granted = false, 0
  while count < lowest and granted < MAX_GRANTS do
    local is_free = count == 0
    local first
    if is_free then
      first = redis.call('ZPOPMIN', queue)[1]
    else
      first = first_in_queue()
    end
    if not first then
      break
    end
    local alive, ttl, channel = read_waiter(first)
    local limit = limit_of(first)
    if alive > now and count >= math.min(limit, lowest) then
      break
    end
    changed = true
    if not is_free then
      redis.call('ZREM', queue, first)
    end
    redis.call('HDEL', waiters, first)
    -- A token that holds the lock already keeps the lease that it has.
    if alive > now and (is_free or not lease_of(first)) then
      local lease = math.min(tonumber(ttl), 2000)
      add_holder(first, limit, lease, now, count)
      local times = string.format('%.0f %.0f ', now, lease)
      -- Without a subscriber, the waiter's process is gone.
      if publish(channel, 'grant ' .. first .. ' ' .. times .. lock) then
        count, lowest, granted = count + 1, math.min(lowest, limit), granted + 1
      else
        drop_holder(first)
      end
    end
  end
  if changed then
    notify_front(now)
  end
  return changed
end

local function pass_on(now, count, lowest, front_changed)
  if not grant_next(now, count, lowest) and front_changed then
    notify_front(now)
  end
end

