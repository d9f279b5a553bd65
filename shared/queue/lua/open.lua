-- open: the last step of a rebuild: writes the generation, and admission is open.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, token of this rebuild, new generation
-- Returns 1 open · 0 somebody else has wiped since, or opened
-- Law 1: only the rebuild that put everything back may open, else depth would be too small.

verb('open', function(keys, args)
  begin(keys, args[1], true)
  if call('GET', K[META]) or call('HGET', K[STATS], 'token') ~= args[2] then return 0 end
  call('SET', K[META], args[3])
  totals().open = 1
  commit()
  return 1
end)
