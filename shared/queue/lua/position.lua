-- position: where a task stands and when it may start. An estimate, and called one.
--
-- KEYS  1–16
-- ARGV  now_ms, id
-- Returns {status, tasks ahead, predicted wait ms or −1}; status '' = unknown; ahead −1 = it does not wait in line

verb('position', function(keys, args)
  begin(keys, args[1])
  local id = args[2]
  local r = read_task(id)
  if not r then return { '', -1, -1 } end
  if r.status ~= 'W' then return { r.status, -1, -1 } end
  local no = tenant_of(id)
  local t = tenant(no)
  advance()
  t.lined = call('ZLEXCOUNT', K[LINE], '[' .. no .. '|', '(' .. line_member(no, id, r))
  local wait_ms, ahead = predict(t, call('ZCARD', K[LINE]) - 1)
  return { 'W', ahead, wait_ms or -1 }
end, { 'no-writes' })
