-- release: takes a registration back, when nothing was or will be committed under it.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, id, registrant
-- Returns 1 released · 0 there is no such registration of this registrant (late and doubled calls change nothing)

verb('release', function(keys, args)
  begin(keys, args[1])
  local id = args[2]
  local r = read_task(id)
  if not r or r.status ~= 'A' or r.owner ~= args[3] then return 0 end
  local no = tenant_of(id)
  forget(no, id, r, (read_tenant(no)))
  dispatch(1)
  commit()
  return 1
end)
