
if vacant or moved_up then
  tell_first(server_time())
end
return answer
