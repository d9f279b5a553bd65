-- cancel: publishes the cancel that MySQL stored: at once if the task does not run, else as a word to its worker.
--
-- KEYS  the shard's keys, the event stream
-- ARGV  now_ms, id, attempt in MySQL, keep ms of the stream, terminal event
-- Returns 1 ended · 2 flagged, the owner was told · 0 had ended already
--         3 unknown, 4 registered: the event is written, so a waiting client gets its end
-- Law 4: called after the conditional UPDATE. A claim refuses the row, so a task queued later is not revived.
-- The owner hears `cancel <id> <attempt>` on channel `worker:<owner>`; a lost word comes with its next beat.

verb('cancel', function(keys, args)
  begin(keys, args[1])
  local id = args[2]
  local r = read_task(id)
  if r and r.status == 'F' then return 0 end
  if r and r.status == 'X' then
    if r.cancel ~= '1' then
      r.cancel = '1'
      write_task(id, r)
    end
    local channel = sub(K[EV], 1, -(#id + 4)) .. 'worker:' .. r.owner
    call('PUBLISH', channel, 'cancel ' .. id .. ' ' .. int(r.attempt))
    return 2
  end
  local attempt = max(r and r.attempt or 0, tonumber(args[3]) or 0)
  seal(id, attempt + 1, (last_event()), args[5], args[4])
  if not r then return 3 end
  if r.status == 'A' then return 4 end
  local no = tenant_of(id)
  local t = read_tenant(no)
  entomb(no, id, r, t)
  update_ring(no, t)
  dispatch(1)
  commit()
  return 1
end)
