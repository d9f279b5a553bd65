-- close: publishes the end of a task whose row is terminal, wherever Redis thinks the task is.
--
-- KEYS  the shard's keys, the event stream
-- ARGV  now_ms, id, attempt in MySQL, keep ms of the stream, terminal event
-- Returns 1 closed · 0 had ended already
-- Law 4: the event comes from the row; a stream that is sealed already gets none. A tombstone stops a late revival.

verb('close', function(keys, args)
  begin(keys, args[1])
  local id = args[2]
  local r = read_task(id)
  if r and r.status == 'F' then return 0 end
  local attempt = max(r and r.attempt or 0, tonumber(args[3]) or 0)
  seal(id, attempt + 1, (last_event()), args[5], args[4])
  local no = tenant_of(id)
  if not r then
    call('ZADD', K[DONE], int(now + TOMBSTONE_MS), id)
    write_task(id, {
      status = 'F', attempt = attempt, user = '', thread = '', place = '', turn = '', cost = 1, owner = '', entry = '',
      cancel = '', hash = '', agent = '',
    })
    return 1
  end
  local t = read_tenant(no)
  entomb(no, id, r, t)
  update_ring(no, t)
  dispatch(1)
  commit()
  return 1
end)
