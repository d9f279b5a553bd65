-- raise: a claim found that MySQL is ahead of the entry: the task goes back in line with MySQL's attempt as its floor.
--
-- KEYS  the shard's keys, the event stream
-- ARGV  now_ms, id, entry, attempt in MySQL, 1 = it may only run in the quarantine lane
-- Returns 1 back in line · 0 the entry does not fit any more
-- Law 5: attempt numbers come from MySQL and only grow; the attempt that MySQL knows is fenced.

verb('raise', function(keys, args)
  begin(keys, args[1], true)
  local id = args[2]
  local r = read_task(id)
  if not r or r.status ~= 'R' or r.entry ~= args[3] then return 0 end
  local no = tenant_of(id)
  local t = read_tenant(no)
  leave_home(no, id, r, t)
  r.attempt = max(r.attempt, tonumber(args[4]) or 0)
  fence(id, r.attempt, 'recovered', 'worker_lost')
  if args[5] == '1' then r.lane = 'q' end
  wait(no, id, r, t, true)
  stage_task(id, r)
  update_ring(no, t)
  dispatch(1)
  commit()
  return 1
end)
