-- audit: compares counters and turns with the homes they speak of, and mends them if told to. One step, so what it finds
-- is a difference and no change under way.
--
-- KEYS  the shard's keys
-- ARGV  now_ms, part (`tenants`, `threads` or `held`), cursor ('0' = from the beginning), about so many, mend: 1 or 0
-- Returns {cursor ('0' = that was all), what, whose, found, true, …}, all strings. `what` is a counter of a tenant
--         (admitted, waiting, delayed, lined, running, ring), a sum (used, weights, admitted, lined, held, …; `whose` is
--         empty), `thread` (whoever has the turn is not live) or `turn` (a task is held by a thread that nobody has)
-- Law 13: a counter that is too high would keep its tenant out for ever; one that is too low lets it in too often.

local AUDIT_IDS_MAX = 5000  -- homes without an order by tenant are counted only up to this size

-- Members of homes by tenant, as `tenant_of_member` reads it; nil if there are too many to count in one call.
local function by_tenant(tenant_of_member, ...)
  local counts = {}
  for _, members in ipairs({ ... }) do
    if #members > AUDIT_IDS_MAX then return nil end
    for _, member in ipairs(members) do
      local no = tenant_of_member(member)
      counts[no] = (counts[no] or 0) + 1
    end
  end
  return counts
end

local function handed_out()
  local ids = {}
  for i, entry in ipairs(call('XRANGE', K[READY], '-', '+', 'COUNT', AUDIT_IDS_MAX + 1)) do ids[i] = entry[2][2] end
  return ids
end

local function some(key) return call('ZRANGE', K[key], 0, AUDIT_IDS_MAX) end

-- Registrations, and those of them that are for later (their place is the moment), which no depth counts.
local function registrations()
  local soon, later = {}, {}
  for _, id in ipairs(some(ADMITTED)) do
    local r = read_task(id)
    local list = r and r.place ~= '' and later or soon
    list[#list + 1] = id
  end
  return soon, later
end

-- Held members of a kind that does not begin with the tenant: parked `@agent|tenant|…`, in quarantine `q|tenant|…`.
local function held_apart(from, to)
  local members = call('ZRANGEBYLEX', K[HELD], from, to, 'LIMIT', 0, AUDIT_IDS_MAX + 1)
  return by_tenant(function(member) return match(member, '^[^|]*|(%d+)|') or '0' end, members)
end

-- Whether the ring says of the tenant what it says of itself and what it may.
local function audit_ring(no, t, mend, note)
  local score = call('ZSCORE', K[RING], no)
  local could = t.lined > 0 and may_run(t)
  local ought = could and (t.in_ring or not call('ZSCORE', K[PACED], no))
  local is = score and true or false
  if is == t.in_ring and is == ought then return false end
  note('ring', no, is and '1' or '0', ought and '1' or '0')
  if mend then
    if score and not t.in_ring then call('ZREM', K[RING], no) end
    if not score then t.score = nil end
    update_ring(no, t)
  end
  return true
end

local function audit_tenants(cursor, count, mend, note)
  local soon, later = registrations()
  local registered, for_later = by_tenant(tenant_of, soon), by_tenant(tenant_of, later)
  local runs, delayed = by_tenant(tenant_of, some(LEASES), handed_out()), by_tenant(tenant_of, some(DELAYED))
  local parked, quarantined = held_apart('[@', '(A'), held_apart('[q|', '(q}')
  local page = call('HSCAN', K[TENANTS], cursor, 'COUNT', count)
  local nos, changed = {}, 0
  for i = 1, #page[2], 2 do
    if match(page[2][i], '^%d+$') then nos[page[2][i]] = true end
  end
  if cursor == '0' then  -- those that have tasks and no record
    for _, counts in ipairs({ registered or {}, runs or {}, delayed or {} }) do
      for no in pairs(counts) do nos[no] = true end
    end
  end
  for no in pairs(nos) do
    local t = tenant(no)
    local function of(counts) return counts and (counts[no] or 0) end
    local first, last = '[' .. no .. '|', '(' .. no .. '}'
    local lined = call('ZLEXCOUNT', K[LINE], first, last)
    local apart = parked and quarantined and of(parked) + of(quarantined)
    local waiting = apart and lined + call('ZLEXCOUNT', K[HELD], first, last) + apart
    local truth = { lined = lined, admitted = of(registered), running = of(runs), waiting = waiting }
    if t.delayed then
      truth.delayed = delayed and for_later and of(delayed) + of(for_later)
    elseif waiting then
      truth.waiting = delayed and waiting + of(delayed)
    end
    local differs = false
    for _, name in ipairs({ 'admitted', 'waiting', 'delayed', 'lined', 'running' }) do
      local is = truth[name]
      if is and is ~= t[name] then
        note(name, no, int(t[name]), int(is))
        differs, t[name] = true, is  -- also for a look, which commits nothing: the ring is judged by the truth
      end
    end
    if mend and differs then update_ring(no, t) end
    if audit_ring(no, t, mend, note) then differs = true end
    if not (mend and differs) then tenants[no] = nil else changed = changed + 1 end
    if changed >= 50 then
      commit()
      tenants, changed = {}, 0
    end
  end
  return page[1], #later
end

local function audit_sums(later, mend, note)
  if mend then
    commit()
    tenants = {}
  end
  local s, weights = totals(), 0
  for _, no in ipairs(call('ZRANGE', K[RING], 0, -1)) do
    local weight = match(call('HGET', K[TENANTS], no) or '', '^[^|]*|([^|]*)')
    if match(no, '^%d+$') then weights = weights + (tonumber(weight) or 1) end
  end
  local truth = {
    used = call('XLEN', K[READY]) + call('ZCARD', K[LEASES]), weights = weights, later = later,
    admitted = call('ZCARD', K[ADMITTED]) - (s.later and later or 0), lined = call('ZCARD', K[LINE]),
    held = call('ZCARD', K[HELD]), quarantined = call('ZLEXCOUNT', K[HELD], '[q|', '(q}'),
  }
  for name, is in pairs(truth) do
    if s[name] and is ~= s[name] then
      note(name, '', int(s[name]), int(is))
      if mend then s[name] = is end
    end
  end
end

-- Lets the turn of a thread pass from somebody who is gone.
local function pass_turn(field)
  local no, thread = match(field, '^(%d+)|(.*)$')
  if not no then return end
  local t = tenant(no)
  leave_thread(no, { thread = thread, status = '' }, t)
  update_ring(no, t)
end

-- Turns of the tasks that stand in no order by thread or place: `thread field|place`; nil if there are too many.
local function turns()
  local has = {}
  for _, ids in ipairs({ some(ADMITTED), some(DELAYED), some(LEASES), handed_out() }) do
    if #ids > AUDIT_IDS_MAX then return nil end
    for _, id in ipairs(ids) do
      local r = read_task(id)
      -- A registration for later names its moment in the place's stead.
      if r and r.thread ~= '' then
        has[tenant_of(id) .. '|' .. r.thread .. '|' .. (r.status == 'A' and '' or r.place)] = true
      end
    end
  end
  return has
end

-- Whether a task with this place waits: in line, parked or in quarantine.
local function waits_at(no, place)
  if place == '' then return false end
  if holder(no, place) then return true end
  local head = 'q|' .. no .. '|' .. place
  if call('ZLEXCOUNT', K[HELD], '[' .. head .. '|', '(' .. head .. '}') > 0 then return true end
  -- Parked, and its agent is on its way back.
  local members = call('ZRANGEBYLEX', K[HELD], '[@', '(A', 'LIMIT', 0, AUDIT_IDS_MAX + 1)
  for _, member in ipairs(members) do
    local whose, at = match(member, '^@[^|]*|(%d+)|([^|]*)|')
    if whose == no and at == place then return true end
  end
  return #members > AUDIT_IDS_MAX
end

local function audit_threads(cursor, count, mend, note)
  local has
  local page = call('HSCAN', K[THREADS], cursor, 'COUNT', count)
  for i = 1, #page[2], 2 do
    local field, place = page[2][i], page[2][i + 1]
    local no = match(field, '^(%d+)|')
    has = has or turns()
    if not has then return '0' end
    if no and not has[field .. '|' .. place] and not waits_at(no, place) then
      note('thread', field, place, '')
      if mend then pass_turn(field) end
    end
  end
  return page[1]
end

-- Those held by their threads stand first, as their members begin with the tenant.
local function audit_held(cursor, count, mend, note)
  local from = cursor == '0' and '[0' or '(' .. cursor
  local members = call('ZRANGEBYLEX', K[HELD], from, '(:', 'LIMIT', 0, count)
  for _, member in ipairs(members) do
    local field, id = match(member, '^(%d+|[^|]*)|.*|([^|]*)$')
    if field and not call('HGET', K[THREADS], field) then
      note('turn', field, '', id)
      if mend then pass_turn(field) end
    end
  end
  return #members == count and members[count] or '0'
end

verb('audit', function(keys, args)
  begin(keys, args[1])
  local part, cursor, count, mend = args[2], args[3], tonumber(args[4]), args[5] == '1'
  local found, later = { '0' }, 0
  local function note(what, whose, is, ought)
    for _, word in ipairs({ what, whose, is, ought }) do found[#found + 1] = word end
  end
  if part == 'tenants' then
    found[1], later = audit_tenants(cursor, count, mend, note)
    if found[1] == '0' then audit_sums(later, mend, note) end
  elseif part == 'threads' then
    found[1] = audit_threads(cursor, count, mend, note)
  else
    found[1] = audit_held(cursor, count, mend, note)
  end
  if mend and #found > 1 then
    dispatch(100)
    commit()
  end
  return found
end)
