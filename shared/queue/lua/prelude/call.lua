-- One call: its keys and its time.
--
-- The library is loaded once and every verb shares this chunk, so helpers are built once. What belongs to one call
-- (keys, time, records read) lives in the locals below and is set anew by begin().
-- House rules: numbers enter strings only through int() (cut to a whole number) or dec(), since `..` writes 14 digits;
-- a record is tested for nil before it is indexed; the step that can be refused comes first, reads next, writes last;
-- each record is written once.

local ADMITTED_MS = 30000   -- a registration that no enqueue followed is purged after this long
local TOMBSTONE_MS = 30000  -- an ended task is remembered this long, so that late and doubled calls find it
local DECAY_MS = 120000     -- busy time and finished tasks fade with this time constant
local PACE_MS = 1000        -- a tenant at its start rate may make up for what it left out this long
local LOOKS_MAX = 100       -- tasks that one dispatch passes over beside those that it hands out
local RETRY_MS_MIN, RETRY_MS_MAX, RETRY_MS_UNKNOWN = 1000, 60000, 10000
local SEAL = '18446744073709551615-18446744073709551615'
local GROUP = 'workers'

-- Positions in KEYS, the same for every verb; EV only where the verb writes to a task's stream.
local ADMITTED, LINE, RING, HELD, READY, DELAYED, TASKS, TENANTS = 1, 2, 3, 4, 5, 6, 7, 8
local USERS, THREADS, LEASES, WORKERS, WSLOTS, STATS, DONE, META, PACED, EV = 9, 10, 11, 12, 13, 14, 15, 16, 17, 18

-- While a library is loaded Redis offers nothing but register_function: these are bound by the first call.
local call, try  -- redis.call and redis.pcall
local floor, min, max, exp, match, gmatch, sub, find, format, concat
local K          -- keys of this call
local now        -- Redis ms of this call; of a verb that seldom needs it, 0 until moment() asked
local tenants    -- tenant no -> record read by this call
local stats      -- totals read by this call, nil until needed
local means      -- agent -> mean tokens of its tasks, as far as read by this call
local staged     -- fields and records of tasks that commit() writes in one go

local function int(number) return format('%d', number) end
local function dec(number) return format('%.3f', number) end

-- The time of this call (law 11: Redis TIME).
local function moment()
  if now == 0 then
    local time = call('TIME')
    now = time[1] * 1000 + floor(time[2] / 1000)
  end
  return now
end

-- Starts a call. `now_ms` is 0 in production; tests pass a virtual time. `is_lazy`: the verb asks moment() if need be.
local function begin(keys, now_ms, is_lazy)
  if not call then
    call, try = redis.call, redis.pcall
    floor, min, max, exp = math.floor, math.min, math.max, math.exp
    match, gmatch, sub, find, format = string.match, string.gmatch, string.sub, string.find, string.format
    concat = table.concat
  end
  K, tenants, stats, means, staged = keys, {}, nil, {}, {}
  now = tonumber(now_ms)
  if not is_lazy then moment() end
end

-- Registers a verb under its versioned name. allow-oom lets running tasks beat and finish while memory is full.
local function verb(name, run, flags)
  redis.register_function{ function_name = name .. '_@HASH@', callback = run, flags = flags or { 'allow-oom' } }
end
