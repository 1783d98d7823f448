
hand_on()
return answer
