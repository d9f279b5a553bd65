-- admit: the yes or no at the door, judged and registered in one step.
--
-- KEYS  the shard's keys (prelude/call.lua)
-- ARGV  now_ms, id, registrant, user or '', hash, depth limit, tenant's bound on admitted + waiting (0 = none),
--       tenant's bound on live tasks (0 = none), user's bound on live tasks (0 = none), max wait ms (0 = any),
--       thread that must be free, or '' (it is then taken with the registration)
-- Returns {code, depth, ms, ahead}
--   1 registered (ms = predicted wait, −1 unknown; ahead = tasks ahead) · 2 seen · 3 pending at another door
--   −1 same id, other body · −2 full · −3 tenant full · −4 tenant has too many live tasks · −5 wait too long
--   −6 rebuilding · −7 the thread is busy · −8 user has too many live tasks; for −2 … −8 ms is the Retry-After
-- Law 1: depth = admitted + line + held + ready never passes the limit by an admission. Law 2: reads and one write.
-- The registrant tells a door's own repeat (its first call had worked) from another door.

verb('admit', function(keys, args)
  begin(keys, args[1])
  local id, registrant, user, hash = args[2], args[3], args[4], args[5]
  local known = read_task(id)
  if known and not (known.status == 'A' and known.owner == registrant) then
    if known.hash ~= '' and known.hash ~= hash then return { -1, 0, 0, 0 } end
    return { known.status == 'A' and 3 or 2, 0, 0, 0 }
  end
  local no = tenant_of(id)
  local t, s = read_tenant(no)
  if not known and s.open == 0 then return { -6, 0, 1000, 0 } end

  local limit, bound, live_max, user_max = tonumber(args[6]), tonumber(args[7]), tonumber(args[8]), tonumber(args[9])
  local wait_max, thread = tonumber(args[10]), args[11]
  local field = no .. '|' .. thread
  local function judge()
    local depth = s.admitted + s.lined + s.held + call('XLEN', K[READY])
    if thread ~= '' and call('HEXISTS', K[THREADS], field) == 1 then return -7, depth end
    if depth >= limit then return -2, depth end
    if bound > 0 and t.admitted + t.waiting >= bound then return -3, depth end
    if live_max > 0 and t.admitted + t.waiting + t.running >= live_max then return -4, depth end
    if user_max > 0 and user ~= '' and (tonumber(call('HGET', K[USERS], no .. '|' .. user)) or 0) >= user_max then
      return -8, depth
    end
    return 1, depth
  end

  local code, depth = 1, 0
  advance()
  if not known then
    code, depth = judge()
    if code < 0 and purge_admitted(100) > 0 then
      dispatch(100)
      commit()
      tenants = {}
      t = tenant(no)
      code, depth = judge()
    end
  end
  local wait_ms, ahead = predict(t, s.lined + s.held)
  if code == 1 and not known and wait_max > 0 and wait_ms and wait_ms > wait_max then code = -5 end
  if code == -7 then return { -7, depth, max(RETRY_MS_MIN, min(floor(mean_ms()), RETRY_MS_MAX)), ahead } end
  if code < 0 then
    local after_ms = next_free_ms(t)
    commit()
    return { code, depth, after_ms, ahead }
  end
  if not known then
    call('ZADD', K[ADMITTED], int(now), id)
    t.admitted, s.admitted = t.admitted + 1, s.admitted + 1
    if user ~= '' then call('HINCRBY', K[USERS], no .. '|' .. user, 1) end
    if thread ~= '' then call('HSET', K[THREADS], field, '') end
    stage_task(id, {
      status = 'A', attempt = 0, user = user, thread = thread, place = '', turn = '', cost = 1, owner = registrant,
      entry = '', cancel = '', hash = hash, agent = '',
    })
    commit()
  end
  return { 1, depth + 1, wait_ms or -1, ahead }
end, {})
