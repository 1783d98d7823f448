pass_on(is_free, front_changed)
return answer
