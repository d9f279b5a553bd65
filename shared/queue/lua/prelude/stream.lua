-- The event stream of a task: ids `<attempt>-<n>`, fields `s` (dense number over the stream) and `e` (event JSON).
--
-- The id fences every write (law 5): Redis refuses one that is not above the last. The terminal event is followed by
-- the seal, the largest id there is, after which Redis refuses everything (law 4).
-- The bell is `<task id> <event id> <s> <event>`; an event above 4 KiB is left out and read from the stream.

local BELL_BYTES_MAX = 4096

local function bell(id, event_id, seq, event)
  local channel = sub(K[EV], 1, -(#id + 4)) .. 'bell'
  local head = id .. ' ' .. event_id .. ' ' .. int(seq)
  call('PUBLISH', channel, #event <= BELL_BYTES_MAX and head .. ' ' .. event or head)
end

-- Appends an event and rings; returns its id, or nil if Redis refused it (fenced or sealed).
local function append(id, event_id, seq, event)
  local added = try('XADD', K[EV], event_id, 's', int(seq), 'e', event)
  if type(added) ~= 'string' then return nil end
  bell(id, added, seq, event)
  return added
end

-- The last event: its `s` and JSON, or 0 and ''.
local function last_event()
  local entry = call('XREVRANGE', K[EV], '+', '-', 'COUNT', 1)[1]
  if not entry then return 0, '' end
  return tonumber(entry[2][2]) or 0, entry[2][4] or ''
end

-- Highest id that the stream ever gave, 0 and 0 without a stream.
local function last_id()
  local info = try('XINFO', 'STREAM', K[EV])
  if info.err then return 0, 0 end
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      local attempt, n = match(info[i + 1], '^(%d+)-(%d+)$')
      return tonumber(attempt) or 0, tonumber(n) or 0, info[i + 1] == SEAL
    end
  end
  return 0, 0
end

local function custom(name, attempt, cause)
  return '{"type":"CUSTOM","name":"penstock.' .. name .. '","value":{"attempt":' .. int(attempt) .. ',"cause":"' .. cause .. '"}}'
end

-- Takes the stream from `attempt`: writes `<attempt + 1>-0`, so that Redis refuses that attempt from now on. A stream
-- that was fenced before stays as it is. Returns false if it is sealed.
-- A stream without events gets the id only: nothing may precede RUN_STARTED. XSETID could also lower the last id and
-- so break a seal; it is asked before.
local function fence(id, attempt, name, cause)
  local seq = last_event()
  local event_id = int(attempt + 1) .. '-0'
  if seq > 0 and append(id, event_id, seq + 1, custom(name, attempt + 1, cause)) then return true end
  local last, _, sealed = last_id()
  if seq == 0 and last > 0 and last <= attempt then call('XSETID', K[EV], event_id) end
  return not sealed
end

-- Writes the terminal event of `attempt` and seals the stream for `keep_ms`. Returns false if it was sealed before.
-- `seq` is the writer's count of events: it is ahead of the stream's own where the stream lost some that clients saw.
local function seal(id, attempt, seq, event, keep_ms)
  local length = call('XLEN', K[EV])
  seq = max(length, seq) + 1
  local written = append(id, int(attempt) .. (length > 0 and '-*' or '-1'), seq, event)
  if not written then
    local last, n, sealed = last_id()
    if sealed then return false end
    written = append(id, int(max(last, attempt)) .. '-' .. int(n + 1), seq, event)
    if not written then return false end
  end
  call('XSETID', K[EV], SEAL)
  call('PEXPIRE', K[EV], int(keep_ms))
  return true
end
