-- Start-time fair queueing between tenants, into the mailbox of idle slots.
--
-- Dispatch serves the tenant with the smallest tag, moves virtual time to it and charges `cost / weight`. `ready` never
-- holds more than the idle slots can take, since an entry there is past fairness, caps and cancels.
-- Tasks that lost workers run in the quarantine lane, at most `lane_max` at once over the queue: one that takes its worker
-- with it cannot take another one at the same time.

-- Hands one task out: the entry carries the attempt number that the worker claims in MySQL first.
local function hand_out(id, r, t)
  local s = totals()
  t.tag = max(t.tag, s.v)
  if r.lane ~= 'q' then s.v = t.tag end  -- the lane serves tenants by turns, not by tags
  t.tag = t.tag + r.cost / t.weight
  pace(t)
  take_slot(id, r, t)
  r.attempt = r.attempt + 1
  r.entry = call('XADD', K[READY], '*', 't', id, 'a', int(r.attempt))
  r.status, r.owner = 'R', ''
  stage_task(id, r)
end

-- The tenant to be served next. The ring may be behind for the tenants of this call, so they are compared by themselves.
local function next_tenant()
  local loaded, best, tag = 0, nil, nil
  for no, t in pairs(tenants) do
    loaded = loaded + 1
    if t.in_ring and (not best or t.tag < tag or (t.tag == tag and no < best)) then best, tag = no, t.tag end
  end
  local stored = call('ZRANGE', K[RING], 0, loaded, 'WITHSCORES')
  for i = 1, #stored, 2 do
    local no = stored[i]
    if no ~= '#' and not tenants[no] then
      local score = tonumber(stored[i + 1])
      if not best or score < tag or (score == tag and no < best) then best = no end
      break
    end
  end
  return best
end

-- Hands out the next task of the quarantine lane: tenants that have one there take turns, those that may not run are
-- passed over. Returns whether there was one.
local function dispatch_quarantined()
  local s = totals()
  local first
  for _ = 1, 20 do
    local from = s.lane_turn == '' and '[q|' or '(q|' .. s.lane_turn .. '}'
    local member = call('ZRANGEBYLEX', K[HELD], from, '(q}', 'LIMIT', 0, 1)[1]
    if not member then
      if s.lane_turn == '' then return false end
      s.lane_turn = ''
    else
      local no = match(member, '^q|(%d+)|')
      if no == first then return false end
      first, s.lane_turn = first or no, no
      local id = id_of(no, member)
      local t, r = tenant(no), read_task(id)
      if not r or r.status ~= 'Q' then  -- a lost key; the census orders the rebuild
        call('ZREM', K[HELD], member)
        s.held, s.quarantined = max(s.held - 1, 0), max(s.quarantined - 1, 0)
      elseif is_parked(r) then
        leave_home(no, id, r, t)
        t.waiting = t.waiting + 1
        park(no, id, r)
        stage_task(id, r)
        first, s.lane_turn = nil, ''  -- the tenant's next one may do
      elseif may_run(t) and is_due(t) then
        leave_home(no, id, r, t)
        hand_out(id, r, t)
        update_ring(no, t)
        return true
      end
    end
  end
  return false
end

-- Hands out at most `count` tasks while slots are idle. The verb that calls it ends in commit(), and no longer uses the
-- tenants that it read before.
local function dispatch(count)
  local s = totals()
  -- Slots may have been idle because only paced tenants had work.
  if s.paced_at > 0 and wake_paced(20) > 0 then count = max(count, min(s.slots - s.used, 100)) end
  local handed, looked, quarantined = 0, 0, 0
  -- One end may make room both in the lane and for a tenant in the ring, so the lane does not count.
  while s.quarantined > 0 and s.used < s.slots and s.paused == 0
    and #lane_without('') < s.lane_max and dispatch_quarantined() do
    quarantined = quarantined + 1
  end
  while s.used < s.slots and s.weights > 0 and s.paused == 0 and handed < count and looked < count + LOOKS_MAX do
    looked = looked + 1
    if looked % 16 == 0 then
      commit()
      tenants = {}
    end
    local no = next_tenant()
    if not no then
      s.weights = 0
      break
    end
    local t = tenant(no)
    local member = call('ZRANGEBYLEX', K[LINE], '[' .. no .. '|', '(' .. no .. '}', 'LIMIT', 0, 1)[1]
    if not member or not t.in_ring then
      -- A lost key: the tenant leaves the ring, the census orders the rebuild.
      t.lined, t.in_ring, t.score = 0, true, t.score or t.tag
    else
      call('ZREM', K[LINE], member)
      t.lined, t.waiting, s.lined = max(t.lined - 1, 0), max(t.waiting - 1, 0), max(s.lined - 1, 0)
      local id = id_of(no, member)
      local r = read_task(id)
      if r and r.status == 'W' then
        if is_parked(r) then
          -- Its agent was paused a moment ago, and the walk through the line has not met it yet.
          t.waiting = t.waiting + 1
          park(no, id, r)
          stage_task(id, r)
        else
          hand_out(id, r, t)
          handed = handed + 1
        end
      end
    end
    update_ring(no, t)
  end
  return handed + quarantined
end

-- Mean slot time of a task in ms, 0 while nothing is known.
local function mean_ms()
  local s = totals()
  return s.busy / max(s.finished >= 1 and s.finished or s.used, 1)
end

-- Predicted wait in ms of one more task of `t` behind `waiting` tasks of all tenants, and how many are ahead of it;
-- nil while nothing is known (paused, no slots, or no task ran lately).
local function predict(t, waiting)
  local s = totals()
  local share = (t.in_ring and s.weights or s.weights + t.weight) / t.weight
  -- Whoever still owes virtual time for its last task lets the others go first, on average by half a task each.
  local own = t.lined + (t.tag > s.v and 0.5 or 0)
  local ahead = floor(min(waiting, own * share))
  if s.paused > 0 or t.hold > 0 or s.slots < 1 then return nil, ahead end
  local cap, mean, own_ms = cap_of(t), mean_ms(), 0
  -- At its cap or its rate a tenant waits for itself, whoever else is there.
  if cap > 0 and t.running + t.lined >= cap then own_ms = (t.running + t.lined + 1 - cap) * mean / cap end
  if t.gap > 0 then own_ms = max(own_ms, t.start_at - now + t.lined * t.gap) end
  if s.used < s.slots and (waiting == 0 or s.weights == 0) then return floor(max(own_ms, 0)), own_ms > 0 and ahead or 0 end
  if mean <= 0 then return own_ms > 0 and floor(own_ms) or nil, ahead end
  return floor(max((ahead + 1) * mean / s.slots, own_ms)), ahead
end

-- Takes the tenant's next free moment for a refused caller; returns how long to wait for it, in ms.
local function next_free_ms(t)
  local s = totals()
  local mean = mean_ms()
  if s.slots < 1 or mean <= 0 then return RETRY_MS_UNKNOWN end
  local cap = cap_of(t)
  local slots = s.slots * t.weight / (t.in_ring and s.weights or s.weights + t.weight)
  if cap > 0 then slots = min(slots, cap) end
  t.retry_at = min(max(now, t.retry_at) + max(mean / slots, t.gap), now + RETRY_MS_MAX)
  return max(floor(t.retry_at - now), RETRY_MS_MIN)
end

-- Corrects what dispatch charged by what the task really cost. What a tenant can owe is bounded, so that one task
-- cannot shut it out.
local function settle(r, t, real, debt_max)
  if real < 0 then return end
  local more = (real - r.cost) / t.weight
  if more > 0 and debt_max > 0 then more = max(min(more, totals().v + debt_max / t.weight - t.tag), 0) end
  t.tag = max(t.tag + more, 0)
end

-- Learns what the agent's tasks use beyond their input.
local function learn(agent, real, input)
  if agent == '' or real < 0 then return end
  local used = max(real - input, 0)
  means[agent] = means[agent] and means[agent] + (used - means[agent]) / 16 or used
  totals().learned = agent
end

-- What a task is expected to cost, in tokens: its input, and what its agent's tasks used beyond theirs.
local function estimate(input, agent, unknown, most)
  if agent ~= '' then input = input + (means[agent] or unknown) end
  return max(floor(min(input, most)), 1)
end
