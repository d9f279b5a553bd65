-- audit: compares counters and turns with the homes they speak of, and mends them if told to. One step, so what it finds
-- is a difference and no change under way.
--
-- KEYS  1–16
-- ARGV  now_ms, part (`tenants`, `threads` or `held`), cursor ('0' = from the beginning), about so many, mend: 1 or 0
-- Returns {cursor ('0' = that was all), what, whose, found, true, …}, all strings. `what` is a counter of a tenant
--         (admitted, waiting, lined, running, ring), a sum (used, held, weights), `thread` (whoever has the turn is not
--         live) or `turn` (a task is held by a thread that nobody has)
-- Law 13: a counter that is too high would keep its tenant out for ever; one that is too low lets it in too often.

local AUDIT_IDS_MAX = 5000  -- homes without an order by tenant are counted only up to this size

-- Members of homes by tenant; nil if there are too many to count in one call.
local function by_tenant(...)
  local counts = {}
  for _, ids in ipairs({ ... }) do
    if #ids > AUDIT_IDS_MAX then return nil end
    for _, id in ipairs(ids) do
      local no = tenant_of(id)
      counts[no] = (counts[no] or 0) + 1
    end
  end
  return counts
end

local function handed_out()
  local ids = {}
  for i, entry in ipairs(call('XRANGE', K[READY], '-', '+')) do ids[i] = entry[2][2] end
  return ids
end

local function audit_tenants(cursor, count, mend, note)
  local s = totals()
  local registered = by_tenant(call('ZRANGE', K[ADMITTED], 0, -1))
  local runs = by_tenant(call('ZRANGE', K[LEASES], 0, -1), handed_out())
  local delayed = by_tenant(call('ZRANGE', K[DELAYED], 0, AUDIT_IDS_MAX))
  local page = call('HSCAN', K[TENANTS], cursor, 'COUNT', count)
  local nos = {}
  for i = 1, #page[2], 2 do nos[page[2][i]] = page[2][i] ~= '#' or nil end
  if cursor == '0' then  -- those that have tasks and no record
    for _, counts in ipairs({ registered or {}, runs or {}, delayed or {} }) do
      for no in pairs(counts) do nos[no] = true end
    end
  end
  for no in pairs(nos) do
    local t = tenant(no)
    local first, last = '[' .. no .. '|', '(' .. no .. '}'
    local lined = call('ZLEXCOUNT', K[LINE], first, last)
    local truth = { lined = lined, admitted = registered and (registered[no] or 0), running = runs and (runs[no] or 0) }
    truth.waiting = delayed and lined + call('ZLEXCOUNT', K[HELD], first, last) + (delayed[no] or 0)
    for _, name in ipairs({ 'admitted', 'waiting', 'lined', 'running' }) do
      local is = truth[name]
      if is and is ~= t[name] then
        note(name, no, int(t[name]), int(is))
        if mend then t[name] = is end
      end
    end
    local in_ring = call('ZSCORE', K[RING], no) and 1 or 0
    local ought = eligible(t) and 1 or 0
    if in_ring ~= ought then
      note('ring', no, int(in_ring), int(ought))
      if mend and ought == 0 then call('ZREM', K[RING], no) end
    end
    if mend and ought == 1 then
      t.tag = max(t.tag, in_ring == 0 and s.v or 0)
      call('ZADD', K[RING], dec(t.tag), no)
    end
    if mend then t.in_ring, t.ring_tag = ought == 1, t.tag end
  end
  return page[1]
end

local function audit_sums(mend, note)
  local s, weights = totals(), 0
  for _, no in ipairs(call('ZRANGE', K[RING], 0, -1)) do
    if no ~= '#' then weights = weights + tenant(no).weight end
  end
  local truth = {
    used = call('XLEN', K[READY]) + call('ZCARD', K[LEASES]), held = call('ZCARD', K[HELD]), weights = weights,
  }
  for name, is in pairs(truth) do
    if is ~= s[name] then
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
  leave_thread(no, { thread = thread }, t)
  update_ring(no, t)
end

local function audit_threads(cursor, count, mend, note)
  local page = call('HSCAN', K[THREADS], cursor, 'COUNT', count)
  for i = 1, #page[2], 2 do
    local field, id = page[2][i], page[2][i + 1]
    if field ~= '#' then
      local r = read_task(id)
      local status = r and r.status or ''
      if status ~= 'W' and status ~= 'D' and status ~= 'R' and status ~= 'X' then
        note('thread', field, id, status)
        if mend then pass_turn(field) end
      end
    end
  end
  return page[1]
end

local function audit_held(cursor, count, mend, note)
  local from = tonumber(cursor) or 0
  local members = call('ZRANGE', K[HELD], from, from + count - 1)
  for _, member in ipairs(members) do
    local field, id = match(member, '^(%d+|[^|]*)|.*|([^|]*)$')
    if field and not call('HGET', K[THREADS], field) then
      note('turn', field, '', id)
      if mend then pass_turn(field) end
    end
  end
  return #members == count and int(from + count) or '0'
end

verb('audit', function(keys, args)
  begin(keys, args[1])
  local part, cursor, count, mend = args[2], args[3], tonumber(args[4]), args[5] == '1'
  local found = { '0' }
  local function note(what, whose, is, ought)
    for _, word in ipairs({ what, whose, is, ought }) do found[#found + 1] = word end
  end
  if part == 'tenants' then
    found[1] = audit_tenants(cursor, count, mend, note)
    if found[1] == '0' then audit_sums(mend, note) end
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
