-- tick: what nobody asks for: due tasks, old registrations, tombstones, silent workers, the sums.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, at most so many of each kind, ms after which a silent worker's slots do not count, width of the
--       quarantine lane
-- Returns how much was done; as much as the bound means: call again

verb('tick', function(keys, args)
  begin(keys, args[1])
  local count = tonumber(args[2])
  local s = totals()
  local most = purge_admitted(min(count, 100))

  local due = call('ZRANGEBYSCORE', K[DELAYED], '-inf', int(now), 'LIMIT', 0, min(count, 100))
  for _, id in ipairs(due) do
    local r = read_task(id)
    if r and r.status == 'D' then
      local no = tenant_of(id)
      local t = tenant(no)
      leave_home(no, id, r, t)
      -- By the place, whatever the attempt: a task that waited behind its own turn would wait for ever.
      wait(no, id, r, t, has_turn_of(no, r))
      stage_task(id, r)
      update_ring(no, t)
    else
      call('ZREM', K[DELAYED], id)
    end
  end
  most = max(most, #due, wake_paced(min(count, 100)))

  local old = call('ZRANGEBYSCORE', K[DONE], '-inf', int(now), 'LIMIT', 0, count)
  if #old > 0 then
    call('ZREM', K[DONE], unpack(old))
    call('HDEL', K[TASKS], unpack(old))
  end
  most = max(most, #old)

  -- The sums are recomputed, not only counted up and down.
  local silent = call('ZRANGEBYSCORE', K[WORKERS], '-inf', int(now - tonumber(args[3])), 'LIMIT', 0, 100)
  for _, worker in ipairs(silent) do
    call('HDEL', K[WSLOTS], worker)
    -- A consumer takes its pending entries with it: it goes once they were reaped.
    local pending = try('XPENDING', K[READY], GROUP, '-', '+', 1, worker)
    if pending.err or #pending == 0 then
      try('XGROUP', 'DELCONSUMER', K[READY], GROUP, worker)
      call('ZREM', K[WORKERS], worker)
    end
  end
  local alive, slots, rows = {}, 0, call('HGETALL', K[WSLOTS])
  for _, worker in ipairs(call('ZRANGE', K[WORKERS], 0, -1)) do alive[worker] = true end
  for i = 1, #rows, 2 do
    if alive[rows[i]] then slots = slots + (tonumber(rows[i + 1]) or 0) else call('HDEL', K[WSLOTS], rows[i]) end
  end
  s.slots = slots
  s.used = call('XLEN', K[READY]) + call('ZCARD', K[LEASES])
  s.admitted, s.lined, s.held = call('ZCARD', K[ADMITTED]) - s.later, call('ZCARD', K[LINE]), call('ZCARD', K[HELD])
  s.quarantined = s.held > 0 and call('ZLEXCOUNT', K[HELD], '[q|', '(q}') or 0
  if s.lane ~= '' then
    local lane = {}
    for id in gmatch(s.lane, '%S+') do
      local r = read_task(id)
      if r and r.lane == 'q' and (r.status == 'R' or r.status == 'X') then lane[#lane + 1] = id end
    end
    s.lane = concat(lane, ' ')
  end
  s.lane_max = tonumber(args[4]) or 1
  advance()
  call('HSET', K[STATS], 'tick', int(now))

  -- Tenants at rest whose tag virtual time has passed are forgotten, unless they were configured.
  local page = call('HSCAN', K[TENANTS], call('HGET', K[STATS], 'scan') or '0', 'COUNT', 50)
  for i = 1, #page[2], 2 do
    local no, text = page[2][i], page[2][i + 1]
    if not tenants[no] then
      local tag, retry_at = match(text, '^([^|]*)|1||0.000|0|0|0|0|0||([^|]*)|[^|]*|0$')
      if tag and tonumber(tag) <= s.v and tonumber(retry_at) <= now then call('HDEL', K[TENANTS], no) end
    end
  end
  call('HSET', K[STATS], 'scan', page[1])

  dispatch(min(count, 100))
  commit()
  return most
end)
