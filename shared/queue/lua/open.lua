-- open: the last step of a rebuild: writes the generation, and admission is open.
--
-- KEYS  1–16
-- ARGV  now_ms, token of this rebuild, new generation
-- Returns 1 open · 0 somebody else has wiped since, or opened
-- Law 1: only the rebuild that put everything back may open, else depth would be too small.

verb('open', function(keys, args)
  begin(keys, 1)
  if call('GET', K[META]) or call('HGET', K[STATS], 'token') ~= args[2] then return 0 end
  call('SET', K[META], args[3])
  return 1
end)
