-- start: the claimed task begins to run: first event, lease, entry gone.
--
-- KEYS  the shard's keys, the event stream
-- ARGV  now_ms, id, entry, worker, lease ms, attempt, RUN_STARTED
-- Returns {code, s of the last event}: 1 runs (also when repeated) · 0 stale entry · −1 the stream is sealed or ahead
-- Law 4: Redis refuses the event of an ended task. Law 7: RUN_STARTED only opens a run; a later attempt of an open run
-- sends CUSTOM penstock.retry. The caller has claimed `attempt` in MySQL.

verb('start', function(keys, args)
  begin(keys, args[1])
  local id, entry, worker, attempt = args[2], args[3], args[4], tonumber(args[6])
  local r = read_task(id)
  if not r then return { 0, 0 } end
  if r.status == 'X' and r.attempt == attempt and r.owner == worker then return { 1, (last_event()) } end
  if r.status ~= 'R' or r.attempt ~= attempt or r.entry ~= entry then return { 0, 0 } end

  local seq, event = 0, args[7]
  if attempt > 1 and call('XLEN', K[EV]) > 0 then  -- nothing comes before a first attempt but its end
    local last
    seq, last = last_event()
    local paused = find(last, '{"type":"RUN_FINISHED"', 1, true) == 1 and find(last, '"outcome":{"type":"interrupt"', 1, true)
    if not paused then
      local cause = find(last, 'penstock.handed_back', 1, true) and 'handed_back'
        or find(last, 'penstock.attempt_failed', 1, true) and 'attempt_failed' or 'worker_lost'
      event = custom('retry', attempt, cause)
    end
  end
  if not append(id, int(attempt) .. '-1', seq + 1, event) then return { -1, 0 } end
  leave_ready(r)
  call('ZADD', K[LEASES], int(now + tonumber(args[5])), id)
  r.status, r.owner = 'X', worker
  write_task(id, r)
  return { 1, seq + 1 }
end)
