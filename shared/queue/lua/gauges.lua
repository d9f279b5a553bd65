-- gauges: the sums that operators and autoscalers look at.
--
-- KEYS  the shard's keys
-- ARGV  now_ms
-- Returns {admitted, line, held, handed out, delayed, running, slots, tombstones, workers, mean service ms or −1,
--          1 = admission open, 1 = paused, waiting in quarantine (part of held), running in its lane}

verb('gauges', function(keys, args)
  begin(keys, args[1])
  advance()
  local s = totals()
  local mean = mean_ms()
  return {
    call('ZCARD', K[ADMITTED]), call('ZCARD', K[LINE]), call('ZCARD', K[HELD]), call('XLEN', K[READY]),
    call('ZCARD', K[DELAYED]), call('ZCARD', K[LEASES]), s.slots, call('ZCARD', K[DONE]), call('ZCARD', K[WORKERS]),
    mean > 0 and floor(mean) or -1, s.open, s.paused == 1 and 1 or 0,
    s.quarantined, #lane_without(''),
  }
end, { 'no-writes' })
