
if vacant or moved_up then
  tell_first()
end
return answer
