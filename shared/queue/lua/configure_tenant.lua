-- configure_tenant: sets a tenant's weight, caps and hold; they count from the next dispatch.
--
-- KEYS  1–16
-- ARGV  now_ms, tenant no, weight (≥ 1), running cap (0 = none), bound on admitted + waiting (0 = none), hold (0 or 1)
-- Returns 1
-- A rebuild forgets it: whoever rebuilds configures tenants again that differ from 1, 0, 0, 0.

verb('configure_tenant', function(keys, args)
  begin(keys, 1)
  local no = args[2]
  local t, s = tenant(no), totals()
  local weight = max(tonumber(args[3]) or 1, 1)
  if t.in_ring then s.weights = max(s.weights - t.weight + weight, 0) end
  t.weight, t.cap, t.bound, t.hold = weight, tonumber(args[4]) or 0, tonumber(args[5]) or 0, tonumber(args[6]) or 0
  update_ring(no, t)
  dispatch(100)
  commit()
  return 1
end)
