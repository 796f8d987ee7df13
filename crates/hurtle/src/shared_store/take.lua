-- Takes one request from every allowance, or from none (GCRA, as in limits/rate.rs).
-- KEYS: the allowances. ARGV: for each, the time in which one request and the whole burst grow back.
-- Times are computed relative to now, because a number has too few digits for a fraction of a
-- microsecond since 1970.
-- A key holds the time at which its allowance is whole again. All times are in microseconds.
-- Returns the number of the allowance that is used up and the time to wait, or two zeros.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local ahead = {}
for i = 1, #KEYS do
  local interval, window = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local known = tonumber(redis.call('GET', KEYS[i]) or '') or now
  -- A clock that was set back must not refuse for longer than a burst takes to grow back.
  ahead[i] = math.min(math.max(known - now, 0), window) + interval
  local wait = ahead[i] - window
  if wait > 0 then
    return {i, math.ceil(wait)}
  end
end
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], string.format('%.3f', now + ahead[i]), 'PX', math.ceil(ahead[i] / 1000))
end
return {0, 0}
