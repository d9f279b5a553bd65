-- unpark: brings parked tasks whose agent is paused no more back to their places in line, some at a time.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, where to go on ('' = from the beginning), at most so many tasks
-- Returns where the next call goes on, or '' at the end

verb('unpark', function(keys, args)
  begin(keys, args[1], true)
  local from = args[2] == '' and '[@' or '(' .. args[2]
  local members = call('ZRANGEBYLEX', K[HELD], from, '(A', 'LIMIT', 0, args[3])
  for i, member in ipairs(members) do
    local agent, no = match(member, '^@' .. FIELD .. NEXT)
    if is_parked({ agent = agent }) then
      dispatch(50)
      commit()
      return '@' .. agent .. '}'  -- the tasks of one agent stand together: go on behind them
    end
    local id = id_of(no, member)
    local r = read_task(id)
    if r and r.status == 'P' then
      local t = tenant(no)
      leave_home(no, id, r, t)
      t.waiting = t.waiting + 1
      queue_up(no, id, r, t)
      stage_task(id, r)
      update_ring(no, t)
    end
    if i % 50 == 0 or i == #members then
      dispatch(50)
      commit()
      tenants = {}
    end
  end
  return #members == tonumber(args[3]) and members[#members] or ''
end)
