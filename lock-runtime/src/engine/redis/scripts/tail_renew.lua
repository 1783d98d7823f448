-- A lease that was the last one may have become shorter: the key expires with the last one of now.
for _, key in ipairs(shorter) do
  lock = key
  read_holders(server_time())
  redis.call('PEXPIREAT', lock, whole(last_end + GRACE))
end
return table.concat(renewed)
