-- release: takes a registration back, when nothing was or will be committed under it.
--
-- KEYS  1–16
-- ARGV  now_ms, id, registrant
-- Returns 1 released · 0 there is no such registration of this registrant (late and doubled calls change nothing)

verb('release', function(keys, args)
  begin(keys, args[1])
  local id = args[2]
  local r = read_task(id)
  if not r or r.status ~= 'A' or r.owner ~= args[3] then return 0 end
  local no = tenant_of(id)
  leave_home(no, id, r, tenant(no))
  leave_user(no, r)
  call('HDEL', K[TASKS], id)
  commit_tenants()
  return 1
end)
