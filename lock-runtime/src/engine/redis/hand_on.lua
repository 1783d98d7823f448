
if vacant then
  hand_on()
elseif moved_up then
  tell_first()
end
return answer
