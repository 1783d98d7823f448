
local function pass_on(is_free, front_changed)
  if is_free or front_changed then
    notify_front(server_time())
  end
end

