-- wipe: the first step of the one repair path: an empty book with its sentinels, admission closed.
--
-- KEYS  1–16
-- ARGV  now_ms, generation expected ('' = none), token of this rebuild
-- Returns 1 wiped · 0 the generation is another: somebody else has rebuilt
-- Law 3: what follows is to enqueue every accepted row in order of place, then `open`. Event streams stay.

verb('wipe', function(keys, args)
  begin(keys, args[1])
  if (call('GET', K[META]) or '') ~= args[2] then return 0 end
  call('UNLINK', unpack(keys, 1, META))
  for _, key in ipairs({ TASKS, TENANTS, USERS, THREADS }) do call('HSET', K[key], '#', '') end
  call('ZADD', K[RING], '+inf', '#')
  call('HSET', K[STATS], 'birth', int(now), 'token', args[3])
  call('XGROUP', 'CREATE', K[READY], GROUP, 0, 'MKSTREAM')
  return 1
end)
