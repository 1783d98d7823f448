-- Reads the reports of processes, and changes nothing, so that a user who may only read can do it.
-- KEYS as for a report   ARGV[1] the lifetime of a report in milliseconds   ARGV[2] the length at which one is cut
-- ARGV[3] how many of the latest to skip, ARGV[4] how many to list; or instead of these, from ARGV[5] on, their processes
-- {number listed, {{process, report, age in milliseconds}, …}}
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' or redis.call('TYPE', KEYS[2]).ok ~= 'zset' then
  return {0, {}}
end
local time, lifetime = redis.call('TIME'), tonumber(ARGV[1])
local ms = time[1] * 1000 + math.floor(time[2] / 1000)
local processes, found = {unpack(ARGV, 5)}, {}
if #processes == 0 then
  local after = string.format('(%.0f', ms - lifetime)
  processes = redis.call('ZREVRANGEBYSCORE', KEYS[2], '+inf', after, 'LIMIT', ARGV[3], ARGV[4])
end
for _, process in ipairs(processes) do
  -- Whatever else is stored names no process.
  if #process == 7 then
    local at, report = redis.call('ZSCORE', KEYS[2], process), redis.call('HGET', KEYS[1], process)
    if at and report and ms - at < lifetime then
      found[#found + 1] = {process, string.sub(report, 1, ARGV[2]), math.max(ms - at, 0)}
    end
  end
end
return {#processes, found}
