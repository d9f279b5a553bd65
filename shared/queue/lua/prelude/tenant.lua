-- Tenants, totals and agents, read once and written once per call, and the ring of tenants that may be served.
--
-- One hash holds them, so that one command reads and one writes all that a call needs. `tenants`:
--   no -> `tag|weight|cap|gap|admitted|waiting|lined|running|hold|ring|retry_at|start_at`
--     tag       virtual start time of its next task; weight: its share
--     cap       running at most, 0 = no cap, '' = the queue's; gap: ms from one start to the next, 0 = any rate
--     admitted, waiting (W H P Q D), lined (W), running (R X): counts
--     hold      1 = paused; ring: 1 = in the ring
--     retry_at  next free moment for a refused caller, ms; start_at: moment of the next start at the tenant's rate, ms
--   # -> `v|slots|used|weights|admitted|lined|held|paused|open|cap|busy|finished|at|paced_at|lane|agents`
--     v         virtual time; slots, used (R + X); weights: sum over the ring; admitted, lined, held (H P Q): counts
--     paused    1 = by an operator, 2 = a rebuild has not said yet; open: 1 = admission is open; cap: of tenants without
--     busy      slot ms, finished: tasks, both decayed; at: ms of the last decay
--     paced_at  when the first tenant in `paced` is due, 0 = none; agents: paused ones, each between blanks
--     lane      the quarantine lane, '' at rest: waiting (Q), width, tenant served last, ids that run in it
--   ~agent -> mean tokens of its tasks beyond their input
-- stats: tick, birth, token (of the last wipe), scan, terms (revision of the tenants' terms in force)
-- Law kept: a tenant is in `ring` exactly while it has a line, is below its cap, within its rate and not paused; one
-- that only its rate keeps out is in `paced`.

local SIX = FIELD .. NEXT .. NEXT .. NEXT .. NEXT .. NEXT
local TENANT = '^' .. SIX .. '|' .. SIX .. '$'
local TOTALS = '^' .. SIX .. '|' .. SIX .. NEXT .. NEXT .. NEXT .. '|(.*)$'
local LANE = '^(%d+),(%d+),(%d*),(.*)$'

local function parse_totals(text)
  local v, slots, used, weights, admitted, lined, held, paused, open, cap, busy, finished, at, paced_at, lane,
    agents = match(text or '', TOTALS)
  local quarantined, lane_max, lane_turn, in_lane = match(lane or '', LANE)
  stats = {
    v = tonumber(v) or 0, slots = tonumber(slots) or 0, used = tonumber(used) or 0, weights = tonumber(weights) or 0,
    admitted = tonumber(admitted) or 0, lined = tonumber(lined) or 0, held = tonumber(held) or 0,
    paused = tonumber(paused) or 0, open = tonumber(open) or 0, cap = tonumber(cap) or 0, busy = tonumber(busy) or 0,
    finished = tonumber(finished) or 0, at = tonumber(at) or 0, paced_at = tonumber(paced_at) or 0,
    agents = agents or '', text = text,
    quarantined = tonumber(quarantined) or 0, lane_max = tonumber(lane_max) or 1, lane_turn = lane_turn or '',
    lane = in_lane or '',
  }
  return stats
end

local function totals() return stats or parse_totals(call('HGET', K[TENANTS], '#')) end

local function lane_text(s)
  if s.quarantined == 0 and s.lane == '' and s.lane_max == 1 then return '' end
  return int(s.quarantined) .. ',' .. int(s.lane_max) .. ',' .. s.lane_turn .. ',' .. s.lane
end

local function totals_text(s)
  return dec(s.v) .. '|' .. int(s.slots) .. '|' .. int(s.used) .. '|' .. int(s.weights) .. '|' .. int(s.admitted) .. '|'
    .. int(s.lined) .. '|' .. int(s.held) .. '|' .. int(s.paused) .. '|' .. int(s.open) .. '|' .. int(s.cap) .. '|'
    .. dec(s.busy) .. '|' .. dec(s.finished) .. '|' .. int(s.at) .. '|' .. int(s.paced_at) .. '|' .. lane_text(s) .. '|' .. s.agents
end

local function parse_tenant(no, text)
  local tag, weight, cap, gap, admitted, waiting, lined, running, hold, ring, retry_at, start_at =
    match(text or '', TENANT)
  local t = {
    tag = tonumber(tag) or 0, weight = tonumber(weight) or 1, cap = tonumber(cap) or -1, gap = tonumber(gap) or 0,
    admitted = tonumber(admitted) or 0, waiting = tonumber(waiting) or 0, lined = tonumber(lined) or 0,
    running = tonumber(running) or 0, hold = tonumber(hold) or 0, in_ring = ring == '1',
    retry_at = tonumber(retry_at) or 0, start_at = tonumber(start_at) or 0, is_known = tag ~= nil,
  }
  t.score = t.in_ring and t.tag or nil  -- what the ring has of it
  tenants[no] = t
  return t
end

local function tenant(no) return tenants[no] or parse_tenant(no, call('HGET', K[TENANTS], no)) end

-- Reads totals, tenant and, if named, the agent's mean in one command; the first thing that a verb reads of them.
local function read_tenant(no, agent)
  local f = agent and agent ~= '' and call('HMGET', K[TENANTS], '#', no, '~' .. agent) or call('HMGET', K[TENANTS], '#', no)
  if f[3] then means[agent] = tonumber(f[3]) end
  return parse_tenant(no, f[2]), parse_totals(f[1])
end

local function tenant_text(t)
  return dec(t.tag) .. '|' .. int(t.weight) .. '|' .. (t.cap < 0 and '' or int(t.cap)) .. '|' .. dec(t.gap) .. '|'
    .. int(t.admitted) .. '|' .. int(t.waiting) .. '|' .. int(t.lined) .. '|' .. int(t.running) .. '|' .. int(t.hold) .. '|'
    .. (t.in_ring and '1' or '') .. '|' .. dec(t.retry_at) .. '|' .. dec(t.start_at)
end

-- Adds the slot time since the last look and lets the past fade, so that long tasks count before they end.
local function advance()
  local s = totals()
  local passed = now - s.at
  if s.at > 0 and passed > 0 then
    local fade = exp(-passed / DECAY_MS)
    s.busy = (s.busy + s.used * passed) * fade
    s.finished = s.finished * fade
  end
  if passed > 0 then s.at = now end
end

-- Most tasks of the tenant that run at once; 0 = no cap.
local function cap_of(t) return t.cap < 0 and totals().cap or t.cap end

local function may_run(t)
  local cap = cap_of(t)
  return t.hold == 0 and (cap == 0 or t.running < cap)
end

local function is_due(t) return t.gap == 0 or moment() >= t.start_at end

-- Sets when the start rate lets the tenant start again. What a start came late, up to a second, is made up for: the tick
-- looks once a second.
local function pace(t)
  if t.gap > 0 then t.start_at = max(t.start_at, moment() - PACE_MS) + t.gap end
end

-- Decides whether the tenant is in the ring, after anything about it changed; flush_ring() writes it.
local function update_ring(no, t)
  local s = totals()
  local could = t.lined > 0 and may_run(t)
  if could and is_due(t) then
    if not t.in_ring then
      t.tag = max(t.tag, s.v)  -- idling earns nothing
      s.weights = s.weights + t.weight
      t.in_ring = true
    end
    return
  end
  if t.in_ring then
    s.weights = max(s.weights - t.weight, 0)
    t.in_ring = false
  end
  if could then
    local due = floor(t.start_at) + 1
    call('ZADD', K[PACED], int(due), no)
    if s.paced_at == 0 or due < s.paced_at then s.paced_at = due end
  end
end

-- Brings back at most `count` tenants whose rate lets them start again.
local function wake_paced(count)
  local s = totals()
  if s.paced_at == 0 or moment() < s.paced_at then return 0 end
  local due = call('ZRANGEBYSCORE', K[PACED], '-inf', int(now), 'LIMIT', 0, count)
  for _, no in ipairs(due) do
    call('ZREM', K[PACED], no)
    update_ring(no, tenant(no))
  end
  local first = call('ZRANGE', K[PACED], 0, 0, 'WITHSCORES')
  s.paced_at = first[1] and first[1] ~= '#' and tonumber(first[2]) or 0
  return #due
end

-- Writes the ring as this call left it.
local function flush_ring()
  local into, gone = {}, {}
  for no, t in pairs(tenants) do
    if t.in_ring and t.score ~= t.tag then
      into[#into + 1], into[#into + 2] = dec(t.tag), no
      t.score = t.tag
    elseif not t.in_ring and t.score then
      gone[#gone + 1] = no
      t.score = nil
    end
  end
  if #into > 0 then call('ZADD', K[RING], unpack(into)) end
  if #gone > 0 then call('ZREM', K[RING], unpack(gone)) end
end

-- The last step of a verb that changed anything: writes tasks, ring, tenants, totals and means.
local function commit()
  flush_ring()
  local fields, n = {}, 0
  for id, text in pairs(staged) do
    fields[n + 1], fields[n + 2] = id, text
    n = n + 2
  end
  if n > 0 then call('HSET', K[TASKS], unpack(fields)) end
  staged, fields, n = {}, {}, 0
  for no, t in pairs(tenants) do
    fields[n + 1], fields[n + 2] = no, tenant_text(t)
    n = n + 2
  end
  local text = stats and totals_text(stats)
  -- Lost totals stay lost: the census finds it and orders the rebuild.
  if text and stats.text and text ~= stats.text then
    fields[n + 1], fields[n + 2] = '#', text
    stats.text, n = text, n + 2
  end
  if stats and stats.learned then
    fields[n + 1], fields[n + 2] = '~' .. stats.learned, dec(means[stats.learned])
    n = n + 2
  end
  if n > 0 then call('HSET', K[TENANTS], unpack(fields)) end
end
