-- dispatch: hands out waiting tasks while slots are idle; a safety net, since every verb that makes room dispatches.
--
-- KEYS  1–16
-- ARGV  now_ms, at most so many
-- Returns how many were handed out

verb('dispatch', function(keys, args)
  begin(keys, 1)
  local handed = dispatch(tonumber(args[2]))
  if handed > 0 then commit() end
  return handed
end)
