-- standing: what a tenant may look at of itself.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, tenant no
-- Returns {registered, waiting, in line, running, weight, cap (0 = none), ms from start to start, 1 = paused,
--          predicted wait ms of one more task or −1, tasks ahead of it}

verb('standing', function(keys, args)
  begin(keys, args[1])
  local t, s = read_tenant(args[2])
  advance()
  local wait_ms, ahead = predict(t, s.lined + s.held)
  return {
    t.admitted, t.waiting, t.lined, t.running, t.weight, cap_of(t), floor(t.gap), (t.hold > 0 or s.paused == 1) and 1 or 0,
    wait_ms or -1, ahead,
  }
end, { 'no-writes' })
