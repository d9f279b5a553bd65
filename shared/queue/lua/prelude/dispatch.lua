-- Start-time fair queueing between tenants, into the mailbox of idle slots.
--
-- Dispatch serves the tenant with the smallest tag, moves virtual time to it and charges `cost / weight`. `ready` never
-- holds more than the idle slots can take, since an entry there is past fairness, caps and cancels.

-- Hands one task out: the entry carries the attempt number that the worker claims in MySQL first.
local function hand_out(id, r, t)
  local s = totals()
  t.tag = max(t.tag, s.v)
  s.v = t.tag
  t.tag = t.tag + r.cost / t.weight
  t.running = t.running + 1
  s.used = s.used + 1
  r.attempt = r.attempt + 1
  r.entry = call('XADD', K[READY], '*', 't', id, 'a', int(r.attempt))
  r.status, r.owner = 'R', ''
  write_task(id, r)
end

-- Hands out at most `count` tasks while slots are idle; the rings of changed tenants must be up to date.
local function dispatch(count)
  local s = totals()
  local handed, looked = 0, 0
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
  return handed
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
