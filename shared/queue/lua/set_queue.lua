-- set_queue: the terms of the whole queue: the first step of bringing it in line with MySQL.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, token of the book, running cap of tenants without one (0 = none), paused agents, each between blanks, or ''
-- Returns 1 set · 0 the book was wiped since: somebody else sets the terms of the new one
-- `set_tenants`, `park`, `unpark` and `confirm_terms` follow. A task of a paused agent that is met is parked from now on.

verb('set_queue', function(keys, args)
  begin(keys, args[1], true)
  if call('HGET', K[STATS], 'token') ~= args[2] then return 0 end
  local s = totals()
  s.cap, s.agents = tonumber(args[3]) or 0, args[4]
  commit()
  return 1
end)
