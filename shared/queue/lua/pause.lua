-- pause: the run closes with an interrupt and waits for a person; the row in MySQL is the task's only home meanwhile.
--
-- KEYS  the shard's keys, the event stream
-- ARGV  now_ms, id, attempt, worker, event (RUN_FINISHED with outcome interrupt), keep ms of the stream
-- Returns 1 paused · 2 had ended · 0 stale · 3 unknown
-- Law 4: no seal, since the answer opens the next attempt on the same stream. A paused task holds no slot and no thread.

verb('pause', function(keys, args)
  begin(keys, args[1])
  local id, attempt = args[2], tonumber(args[3])
  local r = read_task(id)
  if not r then return 3 end
  if r.status == 'F' then return 2 end
  if r.status ~= 'X' or r.attempt ~= attempt or r.owner ~= args[4] then return 0 end
  if not append(id, int(attempt + 1) .. '-0', last_event() + 1, args[5]) then return 2 end
  call('PEXPIRE', K[EV], int(args[6]))

  local no = tenant_of(id)
  local t = read_tenant(no)
  leave_home(no, id, r, t)
  leave_thread(no, r, t)
  leave_user(no, r)
  call('HDEL', K[TASKS], id)
  update_ring(no, t)
  dispatch(1)
  commit()
  return 1
end)
