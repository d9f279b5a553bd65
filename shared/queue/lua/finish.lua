-- finish: publishes the end that the row in MySQL says, frees the slot and hands out the next task.
--
-- KEYS  1–16, 17 event stream
-- ARGV  now_ms, id, attempt, worker, real cost (tokens, −1 = unknown), s of the worker's last event (0 = look it up),
--       keep ms of the stream, max debt (tokens, 0 = any), terminal event
-- Returns 1 ended · 2 had ended already · 0 stale: not this worker's attempt any more · 3 unknown
-- Law 4: called after the conditional UPDATE; the event and the seal are one step. Law 5: owner and attempt must fit.

verb('finish', function(keys, args)
  begin(keys, args[1])
  local id, attempt, worker = args[2], tonumber(args[3]), args[4]
  local r = read_task(id)
  if not r then return 3 end
  if r.status == 'F' then return 2 end
  if r.status ~= 'X' or r.attempt ~= attempt or r.owner ~= worker then return 0 end

  local seq = tonumber(args[6]) or 0
  if seq == 0 then seq = last_event() end
  local code = seal(id, attempt, seq, args[9], args[7]) and 1 or 2
  local no = tenant_of(id)
  local t, s = tenant(no), totals()
  advance()
  s.finished, s.at_read = s.finished + 1, nil
  local real, debt_max = tonumber(args[5]) or -1, tonumber(args[8]) or 0
  if real >= 0 then
    t.tag = max(t.tag + (real - r.cost) / t.weight, 0)
    if debt_max > 0 then t.tag = min(t.tag, s.v + debt_max / t.weight) end
  end
  entomb(no, id, r, t)
  update_ring(no, t)
  dispatch(1)
  commit()
  return code
end)
