-- enqueue: puts an accepted task in its place; straight to `ready` while a slot is idle and nobody else may run.
--
-- KEYS  1–16, 17 event stream
-- ARGV  now_ms, id, user or '', thread or '', hash, place, turn or '', cost (tokens), attempt in MySQL,
--       tenant's weight and running cap, or '' and '' to leave what is known, 1 = it may only run in the quarantine lane
-- Returns {1, 0} queued · {1, 1} queued, it came back without a registration · {2, status} it was here already
-- Law 5: a task that comes back with an attempt behind it fences that attempt; its worker may still be alive.
-- Law 1: an accepted task is never refused. Law 3: may be repeated by the door and the reconciler without harm.

verb('enqueue', function(keys, args)
  begin(keys, 1)  -- no step below needs the time
  local id = args[2]
  local r = read_task(id)
  if r and r.status ~= 'A' then return { 2, r.status } end
  local no = tenant_of(id)
  local t, s = tenant(no), totals()
  local returned = 0
  if r then
    call('ZREM', K[ADMITTED], id)
    t.admitted = max(t.admitted - 1, 0)
  else
    returned = 1
    r = { user = args[3] }
    if r.user ~= '' then call('HINCRBY', K[USERS], no .. '|' .. r.user, 1) end
  end
  r.thread, r.hash, r.place, r.turn = args[4], args[5], args[6], args[7]
  r.cost, r.attempt = max(tonumber(args[8]) or 1, 1), tonumber(args[9]) or 0
  r.owner, r.entry, r.cancel, r.lane = '', '', '', args[12] == '1' and 'q' or ''
  if r.attempt > 0 then fence(id, r.attempt, 'recovered', 'worker_lost') end

  local weight = tonumber(args[10])
  if weight then
    if t.in_ring then s.weights = max(s.weights - t.weight + weight, 0) end
    t.weight, t.cap = max(weight, 1), tonumber(args[11]) or 0
  end

  local idle = s.used < s.slots and s.weights == 0 and s.paused == 0
  if idle and r.lane == '' and may_run(t) and take_thread(no, id, r) then
    hand_out(id, r, t)
    commit()
    return { 1, returned }
  end
  wait(no, id, r, t)
  write_task(id, r)
  update_ring(no, t)
  dispatch(1)
  commit()
  return { 1, returned }
end, {})
