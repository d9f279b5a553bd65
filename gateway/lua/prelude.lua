-- Buckets of one provider and model: what take and settle share.
--
-- One hash holds all buckets of a model: field <name> is the level, field <name>@ the Redis ms of that level. A bucket
-- refills by `refill` per `period_ms` up to `burst`; the burst is carved out of the limit by the caller. Names: r requests,
-- t tokens, i input tokens, o output tokens, m images.
-- House rules: a level goes into HSET as a number (17 digits; `..` and tostring keep 14, '%.3f' would eat the refill of one
-- millisecond); whole numbers enter strings by whole() ('%d': −0 is 0, and 1e17 is not 1e+17); what is no finite number in
-- the store counts as missing; all numbers stay below 2^53.

local KEEP_MS_MIN = 300000       -- a hash outlives its last write by this long, or by the time in which it is full
local KEEP_STEP_MS = 60000       -- … and a little more, so that its life need not be set anew by every call
local KEEP_MS_MAX = 31536000000
local WAIT_MS_MAX = 86400000
local HOUR_MS = 3600000
local CLOSE = 1e-6               -- levels that differ by less are equal: sums of fractions

-- While a library is loaded Redis offers nothing but register_function: these are bound by the first call.
local call, floor, ceil, min, max, format, match, gmatch

local function whole(number) return format('%d', number) end

-- Starts a call and gives its time. `now_ms` is 0 in production (Redis TIME); tests pass a virtual time.
local function begin(now_ms)
  if not call then
    call, floor, ceil, min, max = redis.call, math.floor, math.ceil, math.min, math.max
    format, match, gmatch = string.format, string.match, string.gmatch
  end
  local now = tonumber(now_ms)
  if now == 0 then
    local time = call('TIME')
    now = time[1] * 1000 + floor(time[2] / 1000)
  end
  return now
end

local function finite(text)
  local number = tonumber(text)
  if number and number - number == 0 then return number end
end

-- The buckets that args describe from `first` on, each as name, burst, refill, period_ms, change, start (share of the
-- burst at which it begins), refilled up to now. A bucket is a list, which costs less than names for its parts;
-- AT is false where nobody knew it. Also gives the names of the fields, for write_buckets.
local NAME, LEVEL, BURST, REFILL, PERIOD, CHANGE, AT = 1, 2, 3, 4, 5, 6, 7

local function read_buckets(key, args, first, count, now)
  local buckets, fields = {}, {}
  for n = 1, count do
    local name = args[first + 6 * n - 6]
    fields[2 * n - 1], fields[2 * n] = name, name .. '@'
  end
  if count == 0 then return buckets, fields end
  local stored = call('HMGET', key, unpack(fields))
  for n = 1, count do
    local i = first + 6 * n - 6
    local burst, refill, period = tonumber(args[i + 1]), tonumber(args[i + 2]), tonumber(args[i + 3])
    local level, at = finite(stored[2 * n - 1]), finite(stored[2 * n])
    if level and at then
      if at > now then at = now end -- the clock went back: no credit, no freeze
      level = min(burst, level + (now - at) * refill / period)
    else
      level, at = burst * tonumber(args[i + 5]), false
    end
    buckets[n] = { args[i], level, burst, refill, period, tonumber(args[i + 4]), at }
  end
  return buckets, fields
end

-- Writes every bucket read, and keeps the hash until all of them are full: a debt never expires unpaid.
local function write_buckets(key, buckets, fields, now)
  local count = #buckets
  if count == 0 then return end
  local values, keep, stamp, is_kept = {}, 0, whole(now), true
  local step = floor(now / KEEP_STEP_MS)
  for n = 1, count do
    local b, at = buckets[n], 4 * n - 3
    values[at], values[at + 1], values[at + 2], values[at + 3] = fields[2 * n - 1], b[LEVEL], fields[2 * n], stamp
    keep = max(keep, (b[BURST] - b[LEVEL]) * b[PERIOD] / b[REFILL])
    -- Its life was set in this step of time, for at least KEEP_MS_MIN from now.
    is_kept = is_kept and b[AT] and floor(b[AT] / KEEP_STEP_MS) == step
  end
  call('HSET', key, unpack(values))
  if is_kept and keep <= KEEP_MS_MIN then return end
  call('PEXPIRE', key, whole(min(max(keep, KEEP_MS_MIN) + KEEP_STEP_MS, KEEP_MS_MAX)))
end

local function verb(name, run)
  -- allow-oom: a full memory must not stop calls.
  redis.register_function{ function_name = name .. '_@HASH@', callback = run, flags = { 'allow-oom' } }
end
