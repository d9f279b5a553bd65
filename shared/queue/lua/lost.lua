-- lost: finds tasks whose worker fell silent. It changes nothing: the caller reads their rows, then reaps or closes each.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, at most so many of each kind, ms after which an entry that was read and not started is lost
-- Returns {id, attempt, status, …}: leases that have passed (X), and entries read but not started (R)

verb('lost', function(keys, args)
  begin(keys, args[1])
  local count, found = tonumber(args[2]), {}
  local function add(id, status)
    local r = read_task(id)
    if r and r.status == status then
      found[#found + 1] = id
      found[#found + 1] = r.attempt
      found[#found + 1] = status
    end
  end
  for _, id in ipairs(call('ZRANGEBYSCORE', K[LEASES], '-inf', int(now), 'LIMIT', 0, count)) do add(id, 'X') end
  if call('XLEN', K[READY]) > 0 then
    local pending = try('XPENDING', K[READY], GROUP, 'IDLE', args[3], '-', '+', count)
    if not pending.err then
      for _, p in ipairs(pending) do
        local entry = call('XRANGE', K[READY], p[1], p[1])[1]
        if entry then add(entry[2][2], 'R') end
      end
    end
  end
  return found
end)
