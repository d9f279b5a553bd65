-- dispatch: hands out waiting tasks while slots are idle; a safety net, since every verb that makes room dispatches.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, at most so many
-- Returns how many were handed out

verb('dispatch', function(keys, args)
  begin(keys, args[1], true)
  local handed = dispatch(tonumber(args[2]))
  commit()
  return handed
end)
