-- adopt: a live worker takes back a task that Redis forgot (flush, rebuild) or only knows as waiting.
--
-- KEYS  the shard's keys, the event stream
-- ARGV  now_ms, id, user or '', thread or '', hash, place, turn or '', input (tokens), attempt, agent or '', cost where
--       nothing is known and at most (tokens), worker, lease ms, n of the last event that the worker wrote,
--       1 = it may only run in the quarantine lane
-- Returns 1 it runs here (also when repeated) · 0 lost: another attempt is under way, or it ended
-- Law 3: a flush costs a live worker nothing. Law 5: the caller has read in MySQL that attempt and worker are its own,
-- and a stream that was fenced says no.
-- A lost stream is made anew, empty, at the id of the last event, so that the fence holds and events go on densely.

verb('adopt', function(keys, args)
  begin(keys, args[1])
  local id, attempt, worker = args[2], tonumber(args[9]), args[13]
  local r = read_task(id)
  if r and r.status == 'X' then return r.attempt == attempt and r.owner == worker and 1 or 0 end
  if last_id() > attempt then return 0 end  -- fenced or sealed
  local no = tenant_of(id)
  local t = read_tenant(no, args[10])
  if r then
    if r.status ~= 'A' and (not find('WHPQ', r.status, 1, true) or r.attempt > attempt) then return 0 end
    leave_home(no, id, r, t)
  else
    r = { user = args[3] }
    if r.user ~= '' then call('HINCRBY', K[USERS], no .. '|' .. r.user, 1) end
  end
  local had_thread = r.status and has_thread(r)
  r.thread, r.hash, r.place, r.turn = args[4], args[5], args[6], args[7]
  r.attempt, r.cancel, r.entry, r.agent = attempt, '', '', args[10]
  r.lane = args[16] == '1' and 'q' or ''
  r.cost = estimate(tonumber(args[8]) or 1, r.agent, tonumber(args[11]), tonumber(args[12]))
  if had_thread then
    if r.thread ~= '' then call('HSET', K[THREADS], no .. '|' .. r.thread, r.place) end
  elseif not take_thread(no, r) then
    -- A rebuild gave the thread to a later task. If that one only waits, it waits behind this one again.
    local field = no .. '|' .. r.thread
    local other, o = holder(no, call('HGET', K[THREADS], field))
    if o and o.thread == r.thread then
      leave_home(no, other, o, t)
      t.waiting = t.waiting + 1
      enter_held(no, other, o)
      stage_task(other, o)
      call('HSET', K[THREADS], field, r.place)
    else
      r.thread = ''
    end
  end
  r.status, r.owner = 'X', worker
  take_slot(id, r, t)
  call('ZADD', K[LEASES], int(now + tonumber(args[14])), id)
  stage_task(id, r)
  if call('EXISTS', K[EV]) == 0 then
    call('XADD', K[EV], int(attempt) .. '-' .. int(max(tonumber(args[15]) or 1, 1)), 's', 0, 'e', '')
    call('XTRIM', K[EV], 'MAXLEN', 0)
  end
  update_ring(no, t)
  commit()
  return 1
end, {})
