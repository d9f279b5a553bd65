-- beat: a worker says that it lives, how many slots it has and which attempts it runs.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, worker, slots (−1 = it leaves), lease ms, then id and attempt of each lease
-- Returns {tick due: 0 or 1, answer per lease …}: 0 extended · 1 extended, and asked to cancel · 2 lost · 3 unknown
-- Law 5: a lease is extended for its owner and attempt only. `tick due` = nobody ticked for 1 s: the caller ticks.

verb('beat', function(keys, args)
  begin(keys, args[1])
  local worker, slots, lease_ms = args[2], tonumber(args[3]), tonumber(args[4])
  local before = tonumber(call('HGET', K[WSLOTS], worker)) or 0
  if slots < 0 then
    call('ZADD', K[WORKERS], 0, worker)  -- silent since ever: the next tick forgets it with its consumer
    call('HDEL', K[WSLOTS], worker)
    slots = 0
  else
    call('ZADD', K[WORKERS], int(now), worker)
    if slots ~= before then call('HSET', K[WSLOTS], worker, int(slots)) end
  end
  if slots ~= before then
    local s = totals()
    s.slots = max(s.slots + slots - before, 0)
    if slots > before then dispatch(slots - before) end
    commit()
  end

  local tick = tonumber(call('HGET', K[STATS], 'tick')) or 0
  local answer, ids, extended = { (now - tick >= 1000 or tick > now) and 1 or 0 }, {}, {}
  for i = 5, #args, 2 do ids[#ids + 1] = args[i] end
  if #ids > 0 then
    local records = call('HMGET', K[TASKS], unpack(ids))
    for i, id in ipairs(ids) do
      local r = records[i] and parse_task(records[i])
      if not r then
        answer[i + 1] = 3
      elseif r.status == 'X' and r.owner == worker and r.attempt == tonumber(args[4 + 2 * i]) then
        answer[i + 1] = r.cancel == '1' and 1 or 0
        extended[#extended + 1] = int(now + lease_ms)
        extended[#extended + 1] = id
      elseif r.status == 'A' or (find('WHPQ', r.status, 1, true) and r.attempt <= tonumber(args[4 + 2 * i])) then
        answer[i + 1] = 3  -- put back by a rebuild: the worker may adopt it if the row is still its own
      else
        answer[i + 1] = 2
      end
    end
    if #extended > 0 then call('ZADD', K[LEASES], 'XX', unpack(extended)) end
  end
  return answer
end)
