-- position: where a task stands, when it may start, and what keeps it. An estimate, and called one.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, id
-- Returns {status, tasks ahead, predicted wait ms or −1, why}; status '' = unknown; ahead −1 = it does not wait in line
--   why  what keeps a task in line: rebuilding · paused · no_workers · tenant_cap · start_rate, or '' = others come first

verb('position', function(keys, args)
  begin(keys, args[1])
  local id = args[2]
  local r = read_task(id)
  if not r then return { '', -1, -1, '' } end
  if r.status == 'P' then return { 'P', -1, -1, 'paused' } end
  if r.status ~= 'W' then return { r.status, -1, -1, '' } end
  local no = tenant_of(id)
  local t, s = read_tenant(no)
  advance()
  local cap, why = cap_of(t), ''
  if s.paused == 2 then
    why = 'rebuilding'
  elseif s.paused == 1 or t.hold > 0 then
    why = 'paused'
  elseif s.slots < 1 then
    why = 'no_workers'
  elseif cap > 0 and t.running >= cap then
    why = 'tenant_cap'
  elseif not is_due(t) then
    why = 'start_rate'
  end
  t.lined = call('ZLEXCOUNT', K[LINE], '[' .. no .. '|', '(' .. line_member(no, id, r))
  local wait_ms, ahead = predict(t, s.lined - 1)
  return { 'W', ahead, wait_ms or -1, why }
end, { 'no-writes' })
