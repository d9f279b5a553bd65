-- The record of a task: `status|attempt|user|thread|place|turn|cost|owner|entry|cancel|hash|agent[|lane]`, field = task id.
--
-- status  A registered, W in line, H held by its thread, P parked (its agent is paused), Q in quarantine,
--         D delayed, R handed out, X running, F ended (tombstone)
-- attempt highest attempt number given so far; the next hand-out is one higher
-- user    encoded end user or ''; thread: the thread whose turn this task has or waits for, or ''
-- place   order in the tenant's line; turn: order in the thread where it differs from place, else ''
-- cost    estimated tokens; owner: worker of X, registrant of A; entry: id in `ready` of R
-- cancel  1 once a running task was asked to stop; hash: 64 bits of the request body's SHA-256; agent: encoded name or ''
-- lane    q for a task that may only run in the quarantine lane; left out otherwise
--
-- The tenant is not stored: an id is `<tenant no>.<task uuid>`.

local FIELD = '([^|]*)'
local NEXT = '|' .. FIELD
local TASK = '^' .. FIELD .. NEXT .. NEXT .. NEXT .. NEXT .. NEXT .. NEXT .. NEXT .. NEXT .. NEXT .. NEXT .. '|?' .. FIELD .. '|?(.*)$'

local function tenant_of(id) return match(id, '^%d+') or '0' end

-- Members of sorted sets name the tenant once: they end in the id without its tenant.
local function tail_of(no, id) return sub(id, #no + 2) end
local function id_of(no, member) return no .. '.' .. match(member, FIELD .. '$') end

local function parse_task(text)
  local status, attempt, user, thread, place, turn, cost, owner, entry, cancel, hash, agent, lane = match(text, TASK)
  if not status then return nil end
  return {
    status = status, attempt = tonumber(attempt) or 0, user = user, thread = thread, place = place, turn = turn,
    cost = tonumber(cost) or 1, owner = owner, entry = entry, cancel = cancel, hash = hash,
    agent = agent, lane = lane,
  }
end

local function read_task(id)
  local text = staged[id] or call('HGET', K[TASKS], id)
  return text and parse_task(text)
end

local function task_text(r)
  return r.status .. '|' .. int(r.attempt) .. '|' .. r.user .. '|' .. r.thread .. '|' .. r.place .. '|' .. r.turn .. '|'
    .. int(r.cost) .. '|' .. r.owner .. '|' .. r.entry .. '|' .. r.cancel .. '|' .. r.hash .. '|' .. r.agent
    .. (r.lane == 'q' and '|q' or '')
end

-- For a verb that ends in commit(): the records of all tasks that it moves are written together.
local function stage_task(id, r) staged[id] = task_text(r) end

local function write_task(id, r) call('HSET', K[TASKS], id, task_text(r)) end
