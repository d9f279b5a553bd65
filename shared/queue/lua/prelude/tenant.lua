-- Tenants and totals, read once and written once per call, and the ring of tenants that may be served.
--
-- tenants: no -> `tag|weight|cap|bound|admitted|waiting|lined|running|hold|retry_at`
--   tag      virtual start time of its next task; weight: its share; cap: running at most (0 = no cap)
--   bound    admitted + waiting at most (0 = none); admitted, waiting (W H Q D), lined (W), running (R X): counts
--   hold     1 = not served; retry_at: next free moment for a refused caller, ms
-- stats: v virtual time, slots, used (R + X), weights (sum over the ring), held (H + Q), paused, busy (slot ms, decayed),
--   finished (decayed), at (ms of the last decay), tick, birth, token (of the last wipe); of the quarantine lane:
--   quarantined (Q), lane (ids that run in it), lane_max (its width), lane_turn (tenant served last)
-- Law kept: a tenant is in `ring` exactly while it has a line, is below its cap and not on hold.

local TENANT = '^' .. FIELD .. NEXT .. NEXT .. NEXT .. NEXT .. NEXT .. NEXT .. NEXT .. NEXT .. NEXT .. '$'

local function may_run(t) return t.hold == 0 and (t.cap == 0 or t.running < t.cap) end

local function eligible(t) return t.lined > 0 and may_run(t) end

local function tenant(no)
  local t = tenants[no]
  if t then return t end
  local text = call('HGET', K[TENANTS], no)
  if text then
    local tag, weight, cap, bound, admitted, waiting, lined, running, hold, retry_at = match(text, TENANT)
    t = {
      tag = tonumber(tag) or 0, weight = tonumber(weight) or 1, cap = tonumber(cap) or 0, bound = tonumber(bound) or 0,
      admitted = tonumber(admitted) or 0, waiting = tonumber(waiting) or 0, lined = tonumber(lined) or 0,
      running = tonumber(running) or 0, hold = tonumber(hold) or 0, retry_at = tonumber(retry_at) or 0,
    }
  else
    t = {
      tag = 0, weight = 1, cap = 0, bound = 0, admitted = 0, waiting = 0, lined = 0, running = 0, hold = 0, retry_at = 0,
    }
  end
  t.in_ring = eligible(t)
  t.ring_tag = t.tag
  tenants[no] = t
  return t
end

local function totals()
  if stats then return stats end
  local f = call('HMGET', K[STATS], 'v', 'slots', 'used', 'weights', 'held', 'paused', 'busy', 'finished', 'at',
    'quarantined', 'lane', 'lane_max', 'lane_turn')
  stats = {
    v = tonumber(f[1]) or 0, slots = tonumber(f[2]) or 0, used = tonumber(f[3]) or 0, weights = tonumber(f[4]) or 0,
    held = tonumber(f[5]) or 0, paused = tonumber(f[6]) or 0, busy = tonumber(f[7]) or 0,
    finished = tonumber(f[8]) or 0, at = tonumber(f[9]) or 0,
    quarantined = tonumber(f[10]) or 0, lane = f[11] or '', lane_max = tonumber(f[12]) or 1, lane_turn = f[13] or '',
  }
  local s = stats
  s.v_read, s.used_read, s.weights_read, s.held_read, s.at_read = s.v, s.used, s.weights, s.held, s.at
  s.quarantined_read, s.lane_read, s.lane_turn_read = s.quarantined, s.lane, s.lane_turn
  return stats
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

-- Brings the ring in line with what changed about a tenant.
local function update_ring(no, t)
  if eligible(t) then
    local s = totals()
    if not t.in_ring then
      t.tag = max(t.tag, s.v)  -- idling earns nothing
      s.weights = s.weights + t.weight
      t.in_ring, t.ring_tag = true, nil
    end
    if t.ring_tag ~= t.tag then
      call('ZADD', K[RING], dec(t.tag), no)
      t.ring_tag = t.tag
    end
  elseif t.in_ring then
    local s = totals()
    call('ZREM', K[RING], no)
    s.weights = max(s.weights - t.weight, 0)
    t.in_ring = false
  end
end

-- Writes the records of the tenants that this call read.
local function commit_tenants()
  local fields, n = {}, 0
  for no, t in pairs(tenants) do
    fields[n + 1] = no
    fields[n + 2] = dec(t.tag) .. '|' .. int(t.weight) .. '|' .. int(t.cap) .. '|' .. int(t.bound) .. '|'
      .. int(t.admitted) .. '|' .. int(t.waiting) .. '|' .. int(t.lined) .. '|' .. int(t.running) .. '|' .. int(t.hold)
      .. '|' .. dec(t.retry_at)
    n = n + 2
  end
  if n > 0 then call('HSET', K[TENANTS], unpack(fields)) end
end

-- The last step of a verb that moved a task: writes tenants and totals.
local function commit()
  commit_tenants()
  local s = stats
  if s and s.at ~= s.at_read then
    call('HSET', K[STATS], 'v', dec(s.v), 'used', int(s.used), 'weights', int(s.weights), 'held', int(s.held),
      'busy', dec(s.busy), 'finished', dec(s.finished), 'at', int(s.at))
  elseif s and (s.v ~= s.v_read or s.used ~= s.used_read or s.weights ~= s.weights_read or s.held ~= s.held_read) then
    call('HSET', K[STATS], 'v', dec(s.v), 'used', int(s.used), 'weights', int(s.weights), 'held', int(s.held))
  end
  if s and (s.quarantined ~= s.quarantined_read or s.lane ~= s.lane_read or s.lane_turn ~= s.lane_turn_read) then
    call('HSET', K[STATS], 'quarantined', int(s.quarantined), 'lane', s.lane, 'lane_turn', s.lane_turn)
  end
end
