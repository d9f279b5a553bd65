-- Where a task is: every record has exactly one home, so the homes add up to HLEN tasks at every instant.
--
-- A admitted · W line · H P Q held · D delayed · R ready · X leases · F done. The functions move a task in or out and keep
-- the counters of its tenant, user and thread; the caller writes the record, once.

local function line_member(no, id, r) return no .. '|' .. r.place .. '|' .. tail_of(no, id) end

-- Threads keep the order of acceptance; a priority moves a task in its tenant's line, not in a conversation.
local function held_member(no, id, r)
  return no .. '|' .. r.thread .. '|' .. (r.turn ~= '' and r.turn or r.place) .. '|' .. tail_of(no, id)
end

-- The tasks of a paused agent stand together, and apart from the threads.
local function parked_member(no, id, r) return '@' .. r.agent .. '|' .. no .. '|' .. r.place .. '|' .. tail_of(no, id) end

local function is_parked(r)
  local agents = totals().agents
  return agents ~= '' and r.agent ~= '' and find(agents, ' ' .. r.agent .. ' ', 1, true) ~= nil
end

-- Puts a task of a paused agent aside. It keeps its thread and its place, and comes back when the agent does.
local function park(no, id, r)
  r.status, r.owner, r.entry = 'P', '', ''
  call('ZADD', K[HELD], 0, parked_member(no, id, r))
  local s = totals()
  s.held = s.held + 1
end

local function enter_line(no, id, r, t)
  if is_parked(r) then return park(no, id, r) end
  r.status, r.owner, r.entry = 'W', '', ''
  call('ZADD', K[LINE], 0, line_member(no, id, r))
  local s = totals()
  t.lined, s.lined = t.lined + 1, s.lined + 1
end

-- Takes the turn of the task's thread; false while another task has it. The thread says whose turn it is by the place.
local function take_thread(no, r)
  return r.thread == '' or call('HSETNX', K[THREADS], no .. '|' .. r.thread, r.place) == 1
end

local function enter_held(no, id, r)
  r.status, r.owner, r.entry = 'H', '', ''
  call('ZADD', K[HELD], 0, held_member(no, id, r))
  local s = totals()
  s.held = s.held + 1
end

-- Quarantined tasks wait apart from the line, so that dispatch never meets one that may not run.
local function quarantine_member(no, id, r) return 'q|' .. no .. '|' .. r.place .. '|' .. tail_of(no, id) end

local function enter_quarantine(no, id, r)
  r.status, r.owner, r.entry = 'Q', '', ''
  call('ZADD', K[HELD], 0, quarantine_member(no, id, r))
  local s = totals()
  s.held, s.quarantined = s.held + 1, s.quarantined + 1
end

-- Lets a task that has its thread wait for a slot: in line, in quarantine, or parked.
local function queue_up(no, id, r, t)
  if r.lane == 'q' and not is_parked(r) then enter_quarantine(no, id, r) else enter_line(no, id, r, t) end
end

-- Lets a task wait: for a slot if its thread is its own (`has_turn`) or free, else behind the thread's holder.
local function wait(no, id, r, t, has_turn)
  t.waiting = t.waiting + 1
  if has_turn or take_thread(no, r) then queue_up(no, id, r, t) else enter_held(no, id, r) end
end

-- Whether the task has the turn of its thread: all but H and F have, and A only where it asked for a free thread.
local function has_thread(r) return r.thread ~= '' and r.status ~= 'H' and r.status ~= 'F' end

-- The task at `place` of the tenant, if it waits in line, in quarantine or is parked: its id and record.
local function holder(no, place)
  local from, to = '|' .. place .. '|', '|' .. place .. '}'
  local member = call('ZRANGEBYLEX', K[LINE], '[' .. no .. from, '(' .. no .. to, 'LIMIT', 0, 1)[1]
  if not member and totals().quarantined > 0 then
    member = call('ZRANGEBYLEX', K[HELD], '[q|' .. no .. from, '(q|' .. no .. to, 'LIMIT', 0, 1)[1]
  end
  for agent in gmatch(not member and totals().agents or '', '%S+') do
    local head = '@' .. agent .. '|' .. no
    member = member or call('ZRANGEBYLEX', K[HELD], '[' .. head .. from, '(' .. head .. to, 'LIMIT', 0, 1)[1]
  end
  local id = member and id_of(no, member)
  return id, id and read_task(id)
end

-- Hands the task's thread to the first task that waits for it.
local function leave_thread(no, r, t)
  if r.thread == '' then return end
  local field = no .. '|' .. r.thread
  local s = totals()
  if s.held > 0 then
    local first = '[' .. field .. '|'
    for _, member in ipairs(call('ZRANGEBYLEX', K[HELD], first, '(' .. field .. '}', 'LIMIT', 0, 10)) do
      call('ZREM', K[HELD], member)
      s.held = max(s.held - 1, 0)
      local id = id_of(no, member)
      local heir = read_task(id)
      if heir and heir.status == 'H' then
        call('HSET', K[THREADS], field, heir.place)
        queue_up(no, id, heir, t)
        stage_task(id, heir)
        return
      end
    end
  end
  call('HDEL', K[THREADS], field)
end

local function leave_user(no, r)
  if r.user == '' then return end
  local field = no .. '|' .. r.user
  if call('HINCRBY', K[USERS], field, -1) <= 0 then call('HDEL', K[USERS], field) end
end

local function leave_ready(r)
  if r.entry == '' then return end
  call('XACK', K[READY], GROUP, r.entry)
  call('XDEL', K[READY], r.entry)
  r.entry = ''
end

-- Gives back what dispatch charged for a hand-out that never started.
local function refund(r, t)
  t.tag = max(t.tag - r.cost / t.weight, 0)
  t.start_at = max(t.start_at - t.gap, 0)
end

-- The tasks that run in the quarantine lane, without `id`.
local function lane_without(id)
  local others = {}
  for other in gmatch(totals().lane, '%S+') do
    if other ~= id then others[#others + 1] = other end
  end
  return others
end

-- Takes a slot for a task that is handed out or adopted.
local function take_slot(id, r, t)
  local s = totals()
  t.running = t.running + 1
  s.used = s.used + 1
  if r.lane == 'q' then
    local lane = lane_without(id)
    lane[#lane + 1] = id
    s.lane = concat(lane, ' ')
  end
end

-- Gives back the slot of a task that was handed out or runs.
local function leave_slot(id, r, t)
  local s = totals()
  t.running = max(t.running - 1, 0)
  s.used = max(s.used - 1, 0)
  if r.lane == 'q' then s.lane = concat(lane_without(id), ' ') end
end

-- Takes a task out of its home, whichever it is, with the counts that go with the home. Thread and user stay.
local function leave_home(no, id, r, t)
  local status = r.status
  if status == 'A' then
    call('ZREM', K[ADMITTED], id)
    local s = totals()
    t.admitted, s.admitted = max(t.admitted - 1, 0), max(s.admitted - 1, 0)
  elseif status == 'W' then
    call('ZREM', K[LINE], line_member(no, id, r))
    local s = totals()
    t.lined, t.waiting, s.lined = max(t.lined - 1, 0), max(t.waiting - 1, 0), max(s.lined - 1, 0)
  elseif status == 'H' or status == 'P' then
    call('ZREM', K[HELD], status == 'H' and held_member(no, id, r) or parked_member(no, id, r))
    t.waiting = max(t.waiting - 1, 0)
    local s = totals()
    s.held = max(s.held - 1, 0)
  elseif status == 'Q' then
    call('ZREM', K[HELD], quarantine_member(no, id, r))
    t.waiting = max(t.waiting - 1, 0)
    local s = totals()
    s.held, s.quarantined = max(s.held - 1, 0), max(s.quarantined - 1, 0)
  elseif status == 'D' then
    call('ZREM', K[DELAYED], id)
    t.waiting = max(t.waiting - 1, 0)
  elseif status == 'R' then
    leave_ready(r)
    leave_slot(id, r, t)
    refund(r, t)
  elseif status == 'X' then
    call('ZREM', K[LEASES], id)
    leave_slot(id, r, t)
  end
end

-- Forgets a registration, and all that it held.
local function forget(no, id, r, t)
  leave_home(no, id, r, t)
  if has_thread(r) then leave_thread(no, r, t) end
  leave_user(no, r)
  call('HDEL', K[TASKS], id)
  update_ring(no, t)
end

-- Ends a task: out of its home, thread and user free, a tombstone in its place.
local function entomb(no, id, r, t)
  leave_home(no, id, r, t)
  if has_thread(r) then leave_thread(no, r, t) end
  leave_user(no, r)
  call('ZADD', K[DONE], int(now + TOMBSTONE_MS), id)
  r.status, r.user, r.thread, r.place, r.turn, r.owner, r.entry, r.cancel = 'F', '', '', '', '', '', '', ''
  r.agent, r.lane = '', ''
  stage_task(id, r)
end

-- Removes registrations that no enqueue followed, at most `count`, oldest first; returns how many went.
local function purge_admitted(count)
  local gone = call('ZRANGEBYSCORE', K[ADMITTED], '-inf', int(now - ADMITTED_MS), 'LIMIT', 0, count)
  for _, id in ipairs(gone) do
    local r = read_task(id)
    if r and r.status == 'A' then
      local no = tenant_of(id)
      forget(no, id, r, tenant(no))
    else
      call('ZREM', K[ADMITTED], id)
    end
  end
  return #gone
end
