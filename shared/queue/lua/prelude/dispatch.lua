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
  take_slot(id, r, t)
  r.attempt = r.attempt + 1
  r.entry = call('XADD', K[READY], '*', 't', id, 'a', int(r.attempt))
  r.status, r.owner = 'R', ''
  write_task(id, r)
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
      local no, id = match(member, '^q|(%d+)|'), match(member, FIELD .. '$')
      if no == first then return false end
      first, s.lane_turn = first or no, no
      local t, r = tenant(no), read_task(id)
      if not r or r.status ~= 'Q' then  -- a lost key; the census orders the rebuild
        call('ZREM', K[HELD], member)
        s.held, s.quarantined = max(s.held - 1, 0), max(s.quarantined - 1, 0)
      elseif may_run(t) then
        leave_home(no, id, r, t)
        hand_out(id, r, t)
        update_ring(no, t)
        return true
      end
    end
  end
  return false
end

-- Hands out at most `count` tasks while slots are idle; the rings of changed tenants must be up to date.
local function dispatch(count)
  local s = totals()
  local handed, looked, quarantined = 0, 0, 0
  -- One end may make room both in the lane and for a tenant in the ring, so the lane does not count.
  while s.quarantined > 0 and s.used < s.slots and s.paused == 0
    and #lane_without('') < s.lane_max and dispatch_quarantined() do
    quarantined = quarantined + 1
  end
  while s.used < s.slots and s.weights > 0 and s.paused == 0 and handed < count and looked < count + 20 do
    looked = looked + 1
    local no = call('ZRANGE', K[RING], 0, 0)[1]
    if not no or no == '#' then
      s.weights = 0
      break
    end
    local t = tenant(no)
    local member = call('ZRANGEBYLEX', K[LINE], '[' .. no .. '|', '(' .. no .. '}', 'LIMIT', 0, 1)[1]
    if not member or not t.in_ring then
      -- A lost key: the tenant leaves the ring, the census orders the rebuild.
      t.lined, t.in_ring = 0, true
      update_ring(no, t)
    else
      call('ZREM', K[LINE], member)
      t.lined, t.waiting = max(t.lined - 1, 0), max(t.waiting - 1, 0)
      local id = match(member, FIELD .. '$')
      local r = read_task(id)
      if r and r.status == 'W' then
        hand_out(id, r, t)
        handed = handed + 1
      end
      update_ring(no, t)
    end
  end
  return handed + quarantined
end

-- Predicted wait in ms of one more task of `t` behind `waiting` tasks of all tenants, and how many are ahead of it;
-- nil while nothing is known (no slots, or no task ran lately).
local function predict(t, waiting)
  local s = totals()
  if s.used < s.slots and waiting == 0 then return 0, 0 end
  local share = (t.in_ring and s.weights or s.weights + t.weight) / t.weight
  local ahead = floor(min(waiting, (t.lined + 1) * share))
  local mean = s.busy / max(s.finished >= 1 and s.finished or s.used, 1)
  if s.slots < 1 or mean <= 0 then return nil, ahead end
  return floor((ahead + 1) * mean / s.slots), ahead
end

-- Takes the tenant's next free moment for a refused caller; returns how long to wait for it, in ms.
local function next_free_ms(t)
  local s = totals()
  local mean = s.busy / max(s.finished >= 1 and s.finished or s.used, 1)
  if s.slots < 1 or mean <= 0 then return RETRY_MS_UNKNOWN end
  local share = t.weight / (t.in_ring and s.weights or s.weights + t.weight)
  t.retry_at = min(max(now, t.retry_at) + mean / (s.slots * share), now + RETRY_MS_MAX)
  return max(floor(t.retry_at - now), RETRY_MS_MIN)
end
