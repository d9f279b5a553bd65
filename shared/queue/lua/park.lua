-- park: walks through the line and puts tasks of paused agents aside, some at a time.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, where to go on ('' = from the beginning), at most so many tasks
-- Returns where the next call goes on, or '' at the end
-- A task that this walk has not met yet is parked when dispatch meets it, so none starts meanwhile.

verb('park', function(keys, args)
  begin(keys, args[1], true)
  local from = args[2] == '' and '-' or '(' .. args[2]
  local members = totals().agents == '' and {} or call('ZRANGEBYLEX', K[LINE], from, '+', 'LIMIT', 0, args[3])
  for i, member in ipairs(members) do
    local no = match(member, FIELD)
    local id = id_of(no, member)
    local r = read_task(id)
    if r and r.status == 'W' and is_parked(r) then
      local t = tenant(no)
      leave_home(no, id, r, t)
      t.waiting = t.waiting + 1
      park(no, id, r)
      stage_task(id, r)
      update_ring(no, t)
    end
    if i % 50 == 0 then
      commit()
      tenants = {}
    end
  end
  commit()
  return #members == tonumber(args[3]) and members[#members] or ''
end)
