-- reap: takes a lost task from its silent worker.
--
-- KEYS  the shard's keys, the event stream
-- ARGV  now_ms, id, attempt, reaper (worker id), lease ms, idle ms of an entry, closing: 1 = the row is terminal or
--       its attempts are used up, 1 = it has lost so many workers that it may only run in the quarantine lane
-- Returns {1, 0} back in line · {2, attempt} a closing attempt, owned by the reaper: it ends the row and calls finish
--         {0, 0} not lost any more
-- Law 5: the fence event `<attempt + 1>-0` comes first. Law 4: nothing ends here; the row does, then finish publishes.

verb('reap', function(keys, args)
  begin(keys, args[1])
  local id, attempt = args[2], tonumber(args[3])
  local r = read_task(id)
  if not r or r.attempt ~= attempt then return { 0, 0 } end
  local closing = args[7] == '1' or r.cancel == '1'
  if r.status == 'X' then
    local until_ms = tonumber(call('ZSCORE', K[LEASES], id))
    if until_ms and until_ms > now then return { 0, 0 } end
    closing = not fence(id, attempt, 'recovered', 'worker_lost') or closing
  elseif r.status == 'R' then
    local pending = try('XPENDING', K[READY], GROUP, 'IDLE', args[6], r.entry, r.entry, 1)
    if pending.err or not pending[1] then return { 0, 0 } end
  else
    return { 0, 0 }
  end
  if closing then
    leave_ready(r)
    r.status, r.attempt, r.owner = 'X', attempt + 1, args[4]
    call('ZADD', K[LEASES], int(now + tonumber(args[5])), id)
    write_task(id, r)
    return { 2, r.attempt }
  end
  local no = tenant_of(id)
  local t = read_tenant(no)
  leave_home(no, id, r, t)
  if args[8] == '1' then r.lane = 'q' end
  wait(no, id, r, t, true)
  stage_task(id, r)
  update_ring(no, t)
  dispatch(1)
  commit()
  return { 1, 0 }
end)
