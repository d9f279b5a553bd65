-- retry: the owner gives an attempt up: back in line at its old place (hand-back, due at once) or after a delay.
--
-- KEYS  the shard's keys, the event stream
-- ARGV  now_ms, id, attempt, worker, delay ms (0 = at once), real cost (tokens, −1 = unknown),
--       cause (`handed_back` or `attempt_failed`), max debt (tokens, 0 = any)
-- Returns 1 waits again · 2 had ended · 0 stale · 3 unknown
-- Law 5: the fence event `<attempt + 1>-0` comes first, so Redis refuses this attempt from now on.

verb('retry', function(keys, args)
  begin(keys, args[1])
  local id, attempt = args[2], tonumber(args[3])
  local r = read_task(id)
  if not r then return 3 end
  if r.status == 'F' then return 2 end
  if r.status ~= 'X' or r.attempt ~= attempt or r.owner ~= args[4] then return 0 end
  local cause = args[7]
  if not fence(id, attempt, cause, cause) then return 2 end

  local no = tenant_of(id)
  local t = read_tenant(no)
  leave_home(no, id, r, t)
  settle(r, t, tonumber(args[6]) or -1, tonumber(args[8]) or 0)
  local delay = tonumber(args[5])
  if delay > 0 then
    t.waiting = t.waiting + 1
    r.status, r.owner = 'D', ''
    call('ZADD', K[DELAYED], int(now + delay), id)
  else
    wait(no, id, r, t, true)
  end
  stage_task(id, r)
  update_ring(no, t)
  dispatch(1)
  commit()
  return 1
end)
