-- census: whether the book is whole. Every record has one home, so a lost key shows in one sum or by its sentinel.
--
-- KEYS  the shard's keys
-- ARGV  now_ms
-- Returns {code, generation or '', ms since the last wipe, token of it, revision of the terms or ''}: 1 sound and open · 2 sound, but admission is closed: a
--         rebuild is under way or was left · 0 broken: wipe and rebuild
-- Law 3. O(1): read once a second.

verb('census', function(keys, args)
  begin(keys, args[1])
  local generation = call('GET', K[META]) or ''
  local f = call('HMGET', K[STATS], 'birth', 'token', 'terms')
  local birth, token, terms = tonumber(f[1]), f[2] or '', f[3] or ''
  local since = birth and max(now - birth, 0) or 0
  local sound = birth and call('HEXISTS', K[TASKS], '#') == 1 and call('HEXISTS', K[TENANTS], '#') == 1 and totals().text
    and call('HEXISTS', K[USERS], '#') == 1 and call('HEXISTS', K[THREADS], '#') == 1 and call('ZSCORE', K[RING], '#')
    and call('ZSCORE', K[PACED], '#')
  if sound then
    local homes = call('XLEN', K[READY])
    for _, key in ipairs({ ADMITTED, LINE, HELD, DELAYED, LEASES, DONE }) do homes = homes + call('ZCARD', K[key]) end
    sound = homes == call('HLEN', K[TASKS]) - 1
  end
  if sound then
    local groups = try('XINFO', 'GROUPS', K[READY])
    sound = not groups.err and #groups > 0
  end
  if not sound then return { 0, generation, since, token, terms } end
  return { generation ~= '' and totals().open == 1 and 1 or 2, generation, since, token, terms }
end)
