-- mend_user: sets the live tasks of an end user to what was counted, if nothing was counted on meanwhile.
--
-- KEYS  1–16
-- ARGV  now_ms, `tenant|user`, live tasks found in the counter ('' = none), live tasks by the records
-- Returns 1 mended · 0 the counter has moved since it was looked at

verb('mend_user', function(keys, args)
  begin(keys, 1)
  if (call('HGET', K[USERS], args[2]) or '') ~= args[3] then return 0 end
  if tonumber(args[4]) > 0 then call('HSET', K[USERS], args[2], args[4]) else call('HDEL', K[USERS], args[2]) end
  return 1
end)
