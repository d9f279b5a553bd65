-- emit: writes events of a running task while Redis is at its memory limit, where plain commands are refused.
--
-- KEYS  1–16, 17 event stream
-- ARGV  now_ms, id, attempt, n of the first event, s of the first event, events as JSON …
-- Returns 0 written · 1 some were refused: fenced, or there already · 2 there is no stream
-- Law 5: the id is the fence. What running tasks still say is bounded by the bounds of their answers.

verb('emit', function(keys, args)
  begin(keys, 1)
  local n, seq, refused = tonumber(args[4]), tonumber(args[5]), 0
  for i = 6, #args do
    local number = seq + i - 6
    local event_id = args[3] .. '-' .. int(n + i - 6)
    local added = try('XADD', K[EV], 'NOMKSTREAM', event_id, 's', int(number), 'e', args[i])
    if not added then return 2 end
    if type(added) == 'string' then bell(args[2], added, number, args[i]) else refused = 1 end
  end
  return refused
end)
