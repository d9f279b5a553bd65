-- enqueue: puts an accepted task in its place; straight to `ready` while a slot is idle and nobody else may run.
--
-- KEYS  the shard's keys, the event stream
-- ARGV  now_ms, id, user or '', thread or '', hash, place, turn or '', input (tokens), attempt in MySQL, agent or '',
--       cost of a task beyond its input where nothing is known, cost at most (tokens), 1 = it may only run in the
--       quarantine lane
-- Returns {1, 0} queued · {1, 1} queued, it came back without a registration · {2, status} it was here already
-- Law 5: a task that comes back with an attempt behind it fences that attempt; its worker may still be alive.
-- Law 1: an accepted task is never refused. Law 3: may be repeated by the door and the reconciler without harm.

verb('enqueue', function(keys, args)
  begin(keys, args[1], true)
  local id = args[2]
  local r = read_task(id)
  if r and r.status ~= 'A' then return { 2, r.status } end
  local no = tenant_of(id)
  local t, s = read_tenant(no, args[10])
  local returned, has_turn = 0, false
  if r then
    has_turn = r.thread ~= ''  -- it asked for a free thread at the door
    call('ZREM', K[ADMITTED], id)
    t.admitted, s.admitted = max(t.admitted - 1, 0), max(s.admitted - 1, 0)
  else
    returned = 1
    r = { user = args[3] }
    if r.user ~= '' then call('HINCRBY', K[USERS], no .. '|' .. r.user, 1) end
  end
  r.thread, r.hash, r.place, r.turn = args[4], args[5], args[6], args[7]
  r.attempt, r.agent = tonumber(args[9]) or 0, args[10]
  r.cost = estimate(tonumber(args[8]) or 1, r.agent, tonumber(args[11]), tonumber(args[12]))
  r.owner, r.entry, r.cancel, r.lane = '', '', '', args[13] == '1' and 'q' or ''
  if has_turn then call('HSET', K[THREADS], no .. '|' .. r.thread, r.place) end
  if r.attempt > 0 then fence(id, r.attempt, 'recovered', 'worker_lost') end

  local is_idle = s.used < s.slots and s.weights == 0 and s.paused == 0
  if is_idle and r.lane == '' and may_run(t) and is_due(t) and not is_parked(r) and (has_turn or take_thread(no, r)) then
    hand_out(id, r, t)
    update_ring(no, t)
  else
    wait(no, id, r, t, has_turn)
    stage_task(id, r)
    update_ring(no, t)
    dispatch(1)
  end
  commit()
  return { 1, returned }
end, {})
