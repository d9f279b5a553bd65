-- confirm_terms: the last step of bringing the queue in line with MySQL: it goes on, or is paused.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, token of the book, revision of the terms, paused (0 or 1)
-- Returns 1 confirmed · 0 the book was wiped since
-- A new book hands nothing out before this: what was paused before a flush stays paused.

verb('confirm_terms', function(keys, args)
  begin(keys, args[1], true)
  if call('HGET', K[STATS], 'token') ~= args[2] then return 0 end
  call('HSET', K[STATS], 'terms', args[3])
  totals().paused = tonumber(args[4])
  dispatch(100)
  commit()
  return 1
end)
