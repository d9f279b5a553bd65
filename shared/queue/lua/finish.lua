-- finish: publishes the end that the row in MySQL says, frees the slot and hands out the next task.
--
-- KEYS  the shard's keys, the event stream
-- ARGV  now_ms, id, attempt, worker, real cost (tokens, −1 = unknown), s of the worker's last event (0 = look it up),
--       keep ms of the stream, max debt (tokens, 0 = any), input (tokens), terminal event
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
  local code = seal(id, attempt, seq > 0 and seq or last_event(), args[10], args[7]) and 1 or 2
  local no = tenant_of(id)
  local t, s = read_tenant(no, r.agent)
  advance()
  s.finished = s.finished + 1
  local real = tonumber(args[5]) or -1
  settle(r, t, real, tonumber(args[8]) or 0)
  learn(r.agent, real, tonumber(args[9]) or 0)
  entomb(no, id, r, t)
  update_ring(no, t)
  dispatch(1)
  commit()
  return code
end)
