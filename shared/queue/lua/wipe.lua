-- wipe: the first step of the one repair path: an empty book with its sentinels, admission closed.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, generation expected ('' = none), token of this rebuild
-- Returns 1 wiped · 0 the generation is another: somebody else has rebuilt
-- Law 3: what follows is `set_terms`, before which nothing is handed out, then to enqueue every accepted row in order of place, then `open`. Event streams stay.

verb('wipe', function(keys, args)
  begin(keys, args[1])
  if (call('GET', K[META]) or '') ~= args[2] then return 0 end
  call('UNLINK', unpack(keys, 1, PACED))
  for _, key in ipairs({ TASKS, USERS, THREADS }) do call('HSET', K[key], '#', '') end
  for _, key in ipairs({ RING, PACED }) do call('ZADD', K[key], '+inf', '#') end
  local s = totals()
  s.paused, s.text = 2, ''
  commit()
  call('HSET', K[STATS], 'birth', int(now), 'token', args[3])
  call('XGROUP', 'CREATE', K[READY], GROUP, 0, 'MKSTREAM')
  return 1
end)
