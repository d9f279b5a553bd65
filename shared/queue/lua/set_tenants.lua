-- set_tenants: sets weights, caps, start rates and pauses of tenants; they count from the next dispatch.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, token of the book, then of each tenant: no, weight (≥ 1), running cap (0 = none, '' = the queue's),
--       ms from one start to the next (0 = any rate), paused (0 or 1)
-- Returns 1 set · 0 the book was wiped since
-- A tenant at rest with the usual terms gets no record.

verb('set_tenants', function(keys, args)
  begin(keys, args[1])
  if call('HGET', K[STATS], 'token') ~= args[2] then return 0 end
  local s = totals()
  for i = 3, #args, 5 do
    local no, weight = args[i], max(tonumber(args[i + 1]) or 1, 1)
    local cap, gap, hold = tonumber(args[i + 2]) or -1, tonumber(args[i + 3]) or 0, tonumber(args[i + 4]) or 0
    local t = tenant(no)
    if t.is_known or weight ~= 1 or cap >= 0 or gap > 0 or hold > 0 then
      if t.in_ring then s.weights = max(s.weights - t.weight + weight, 0) end
      t.weight, t.cap, t.gap, t.hold = weight, cap, gap, hold
      t.start_at = gap > 0 and min(t.start_at, now + gap) or 0
      update_ring(no, t)
    else
      tenants[no] = nil
    end
  end
  dispatch(100)
  commit()
  return 1
end)
