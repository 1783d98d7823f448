
if is_free or front_changed then
  notify_front(server_time())
end
return answer
