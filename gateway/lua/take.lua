-- take: debits every bucket and day counter of one provider and model, or none of them.
--
-- KEYS  1 buckets (hash), 2 line (hash: process → ticket of its head, "arrival due" and " name cost" for each bucket),
--       3… day counters (hash: start of a slot in ms → used)
-- ARGV  now_ms, process, age_ms (how long its head has waited, and any head start), count of buckets;
--       for each bucket: name, burst, refill, period_ms, cost, start (0 or 1);
--       for each day counter: name, limit, cost, from, to (Redis ms of the period; 0 0 = the last 24 hours)
-- Returns {1, 0, '', now, slot, levels and uses …} all debited · {0, wait_ms, why, …} not now: the name of the bucket that is
--       shortest, or `line` · {-1, wait_ms, name, …} a day counter is used up for so long · {-2, 0, '', now} the period of a
--       day counter is not now
-- Law   8: a take that is refused debits nothing. It still writes level and time: a bucket that starts empty must fill.
--       A bucket lends at most one call that is larger than its burst.
--
-- Order over all processes is by arrival, by Redis time: only now − age is used, so no clocks are compared. A ticket that
-- was not renewed by `due` is passed over, and later removed: its process is gone or has other worries.

local RENEW_MS = 250    -- a ticket must be renewed within its wait and this
local GONE_MS = 5000    -- then, after this, it is removed
local TICKETS_MAX = 256

-- What stands before `arrival`: costs by bucket, and when the last of them means to ask.
local function read_line(key, process, arrival, now)
  local tickets = call('HGETALL', key)
  local line = { costs = {}, is_behind = false, wake = 0, count = 0, is_queued = false }
  for n = 1, #tickets, 2 do
    local other = tickets[n]
    local came, due, costs = match(tickets[n + 1], '^(%-?%d+) (%d+)(.*)$')
    came, due = tonumber(came), tonumber(due)
    if other == process then
      line.is_queued = true
    elseif not came or now > due + GONE_MS then
      call('HDEL', key, other)
    else
      line.count = line.count + 1
      if now <= due and (came < arrival or (came == arrival and other < process)) then
        line.is_behind = true
        line.wake = max(line.wake, due - RENEW_MS)
        for name, cost in gmatch(costs, ' (%a) (%d+)') do
          line.costs[name] = (line.costs[name] or 0) + tonumber(cost)
        end
      end
    end
  end
  return line
end

-- A day counter: the slot of now, what is used in its period, and the time until `cost` fits.
local function read_day(key, limit, cost, from, to, now)
  cost = min(cost, limit) -- one call larger than the limit passes when nothing else was used
  local is_rolling = from == 0
  local slot = is_rolling and now - now % HOUR_MS or from
  local oldest, slots, used = is_rolling and slot - 24 * HOUR_MS or from, {}, 0
  local stored = call('HGETALL', key)
  for n = 1, #stored, 2 do
    local start, count = tonumber(stored[n]), finite(stored[n + 1]) or 0
    if start < oldest then
      call('HDEL', key, stored[n])
    else
      used = used + count
      slots[#slots + 1] = { start = start, count = count }
    end
  end
  local day = { slot = slot, used = used, keep = is_rolling and 25 * HOUR_MS or to - now, wait = 0 }
  if used + cost <= limit then return day end
  if not is_rolling then
    day.wait = to - now
    return day
  end
  table.sort(slots, function(a, b) return a.start < b.start end)
  local left = used
  for n = 1, #slots do
    left = left - slots[n].count
    day.wait = max(1, slots[n].start + 25 * HOUR_MS - now)
    if left + cost <= limit then break end
  end
  return day
end

verb('take', function(keys, args)
  local now = begin(args[1])
  local process, arrival, count = args[2], now - tonumber(args[3]), tonumber(args[4])
  local first_day = 5 + 6 * count
  for at = first_day, #args, 5 do
    local from, to = tonumber(args[at + 3]), tonumber(args[at + 4])
    if from > 0 and (now < from or now >= to) then return { -2, 0, '', now, 0 } end
  end

  local days, exhausted, exhausted_ms = {}, '', 0
  for at = first_day, #args, 5 do
    local key = keys[3 + #days]
    local limit, cost = tonumber(args[at + 1]), tonumber(args[at + 2])
    local day = read_day(key, limit, cost, tonumber(args[at + 3]), tonumber(args[at + 4]), now)
    day.key, day.cost = key, cost
    days[#days + 1] = day
    if day.wait > exhausted_ms then exhausted, exhausted_ms = args[at], day.wait end
  end

  local buckets, fields = read_buckets(keys[1], args, 5, count, now)
  local line = read_line(keys[2], process, arrival, now)
  local wait, why, is_granted = 0, '', not line.is_behind and exhausted_ms == 0
  for n = 1, count do
    local b = buckets[n]
    local needed = (line.costs[b[NAME]] or 0) + min(b[CHANGE], b[BURST])
    if b[LEVEL] + CLOSE < needed then
      is_granted = false
      local refilled = ceil((needed - b[LEVEL]) * b[PERIOD] / b[REFILL])
      if refilled > wait then wait, why = refilled, b[NAME] end
    end
  end

  local answer = { 1, 0, '', now, days[1] and days[1].slot or 0 }
  if is_granted then
    for n = 1, count do buckets[n][LEVEL] = buckets[n][LEVEL] - buckets[n][CHANGE] end
    for n = 1, #days do
      local day = days[n]
      call('HINCRBY', day.key, whole(day.slot), whole(day.cost))
      call('PEXPIRE', day.key, whole(day.keep + KEEP_MS_MIN))
      day.used = day.used + day.cost
    end
    if line.is_queued then call('HDEL', keys[2], process) end
  elseif exhausted_ms > 0 then
    answer[1], answer[2], answer[3] = -1, exhausted_ms, exhausted
    if line.is_queued then call('HDEL', keys[2], process) end
  else
    -- Behind others there is no use in asking before the last of them means to.
    if line.wake - now > wait then wait, why = line.wake - now, 'line' end
    wait = max(1, min(wait, WAIT_MS_MAX))
    if why == '' then why = 'line' end
    if line.is_queued or line.count < TICKETS_MAX then
      local ticket = { whole(arrival), whole(now + wait + RENEW_MS) }
      for n = 1, count do
        ticket[#ticket + 1] = buckets[n][NAME]
        ticket[#ticket + 1] = whole(buckets[n][CHANGE])
      end
      call('HSET', keys[2], process, table.concat(ticket, ' '))
      call('PEXPIRE', keys[2], whole(WAIT_MS_MAX + GONE_MS))
    end
    answer[1], answer[2], answer[3] = 0, wait, why
  end
  write_buckets(keys[1], buckets, fields, now)
  for n = 1, count do answer[#answer + 1] = floor(buckets[n][LEVEL]) end
  for n = 1, #days do answer[#answer + 1] = days[n].used end
  return answer
end)
