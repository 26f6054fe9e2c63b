--[[ state: what a queue is made of.
  queue   clock and seq; steps: how often contests were looked at, the measure of their cost; tracks and tenants; nodes by
          id; running: node -> the time by which it has to be confirmed; loaded and texts: how many wait as nodes, and as text;
          switches of operators (slots, paused, parallelism, share, models, capacity); costs as they were measured;
          service: minute -> tenant -> microseconds, of minutes that are over for the tenant
  track   nodes that the same limits can block: type, lane, model. Its contest orders the crowds that could go; their tags
          are on the track's own clock, `lag` behind the pool's
  tenant  policy and clock (`last` is the latest tag), users by name, and by track a crowd
  user    name, running, a cap of its own if it has one, and by track a line
  crowd   the users of a tenant that could go on a track: a heap of lines, with a clock of its own. It has the tag, cost and
          seq of its first node while it contends; it does not while its tenant is at its cap
  line    a user's nodes on a track, linked in order of arrival; tag, seq and cost of the first, `at` in its crowd
  tail    those behind them, as chunks of text `from` to `to`; `read` is the place in the first chunk where the next one stands
  node    next and previous in its line; the rest speaks for itself

There are many of all but tracks, and most were not looked at for long when their turn comes: what counts is how many lines of
the processor's cache they take. So they are arrays, a user and a crowd with their lines behind the fields, and what a dispatch
looks at stands first; `scripts.py` turns fields into numbers, by the name before the dot. ]]
--@layout tenant: id weight cap user_cap last credit dearest waiting running minute served is_capped since contending crowds users
--@layout user: name tenant running lines cap
--@layout crowd: tenant track tag cost seq clock
--@layout line: user track first last tag seq cost at tail
--@layout node first last next previous: id user track cost seq charged next previous
local USER, CROWD = 5, 6 -- how many fields stand before the lines
local match, gmatch, find, sub, format, max, min, floor, ceil, concat, sort, call

-- While a library is being loaded it sees nothing of Lua or Redis: the first call binds what all of them use.
local function bind()
  match, gmatch, find, sub, format = string.match, string.gmatch, string.find, string.sub, string.format
  max, min, floor, ceil = math.max, math.min, math.floor, math.ceil
  concat, sort, call = table.concat, table.sort, redis.call
end

local UNLIMITED = 1 / 0
local SAMPLES_BEFORE_AVERAGE = 20
local PASS_OVER_LIMIT = 24
local TRACK_LIMIT = 256
local CLOCK_LIMIT = 4503599627370496
local SERVICE_MINUTES = 120

local verbs = {}
local pools = {} -- epoch key -> epoch -> queue
local queue, now_ms, places -- of the call that runs
local placed, unplaced -- by it: ids and places by turns; ids

local function new_queue()
  return {
    is_loading = true, clock = 0, seq = 0, steps = 0, log_length = 0,
    tracks = {}, track_named = {}, tenants = {}, nodes = {}, running = {}, loaded = 0, texts = 0, table_limit = UNLIMITED,
    slots = {}, paused = {}, parallelism = {}, share = {}, models = {}, capacity = UNLIMITED,
    everything = { running = 0, limit = UNLIMITED }, kinds = {}, lanes = {}, of_model = {}, are_limits_known = false,
    costs = {}, service = {},
  }
end

-- Numbers as text. Joining a number with .. keeps fourteen digits, too few for tags and clocks.
local function int(number)
  return format("%d", number)
end

local function optional(number)
  return number and number ~= UNLIMITED and format("%d", number) or ""
end
