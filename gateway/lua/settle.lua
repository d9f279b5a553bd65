-- settle: corrects a take by what the call really used.
--
-- KEYS  1 buckets (hash), 2… day counters
-- ARGV  now_ms, count of buckets; for each bucket: name, burst, refill, period_ms, real − taken, start (1: a bucket that is
--       not there is full); for each day counter: slot of the take, real − taken
-- Returns {now, level …}
-- Law   8: below zero only by this or by one call larger than the burst; a level never rises above the burst.
--
-- Every bucket of the model is named, those that do not change too: the hash lives until all of them are full. It is sent
-- once and never again: a repeated one would debit twice.

verb('settle', function(keys, args)
  local now = begin(args[1])
  local count = tonumber(args[2])
  local buckets, fields = read_buckets(keys[1], args, 3, count, now)
  for n = 1, count do buckets[n][LEVEL] = min(buckets[n][BURST], buckets[n][LEVEL] - buckets[n][CHANGE]) end
  write_buckets(keys[1], buckets, fields, now)
  local key = 2
  for at = 3 + 6 * count, #args, 2 do
    -- A counter that is gone stays gone: its period is over, or it was flushed.
    local used, change = finite(call('HGET', keys[key], args[at])), tonumber(args[at + 1])
    if used and change ~= 0 then call('HSET', keys[key], args[at], whole(max(0, used + change))) end
    key = key + 1
  end
  local answer = { now }
  for n = 1, count do answer[n + 1] = floor(buckets[n][LEVEL]) end
  return answer
end)
