--[[ pool: the clock, the switches and the tracks. Read once per call, what changed is written once.
  POOL  hash: clock, seq (arrivals), turn (tagged heads), capacity; slots:<type>, paused:<lane>, parallelism:<lane>,
        share:<lane>, model:<model>, step:<step>, cost:<type> "samples average",
        track:<index> "lag blocked_at waiting running type|lane|model|step"; `damaged` once keys were found missing ]]
local TRACK = "^(%-?%d+) (%S+) (%d+) (%d+) (([^|]+)|([^|]+)|([^|]*)|([^|]*))$"
local clock, seq, turn, capacity
local switches = { slots = {}, paused = {}, parallelism = {}, share = {}, model = {}, step = {} }
local tracks, track_named, costs = {}, {}, {}

-- Answers whether there is a queue to work on. One that lost keys, or whose clock nears the end of exact doubles, counts
-- as lost: the rebuild that follows mends it.
local function read_pool()
  if not is_in_force() then
    return false
  end
  local flat, plain = call("HGETALL", POOL), {}
  for i = 1, #flat, 2 do
    local field, value = flat[i], flat[i + 1]
    local kind, name = match(field, "^(%l+):(.+)$")
    if kind == "track" then
      local lag, blocked_at, waiting, running, full, node_type, lane, model, step = match(value, TRACK)
      local track = { index = tonumber(name), lag = tonumber(lag), blocked_at = tonumber(blocked_at),
        waiting = tonumber(waiting), running = tonumber(running), name = full,
        type = node_type, lane = lane, model = model, step = step }
      tracks[track.index], track_named[full] = track, track
    elseif kind == "cost" then
      local samples, average = match(value, "^(%d+) (%d+)$")
      costs[name] = { samples = tonumber(samples), average = tonumber(average) }
    elseif kind then
      switches[kind][name] = value
    else
      plain[field] = tonumber(value)
    end
  end
  clock, seq, turn, capacity = plain.clock, plain.seq, plain.turn, plain.capacity or UNLIMITED
  return clock and clock <= CLOCK_LIMIT and not plain.damaged
end

local function damaged()
  call("HSET", POOL, "damaged", 1)
end

local function track_for(name)
  local track = track_named[name]
  if not track then
    local node_type, lane, model, step = match(name, "^([^|]+)|([^|]+)|([^|]*)|([^|]*)$")
    track = { index = #tracks + 1, lag = 0, waiting = 0, running = 0, name = name,
      type = node_type, lane = lane, model = model, step = step }
    tracks[track.index], track_named[name] = track, track
  end
  return track
end

-- While a track is blocked its time stands still: its tags move along with the pool's clock.
local function lag_of(track)
  return track.blocked_at and track.lag + clock - track.blocked_at or track.lag
end

-- After twenty samples the average of a type replaces what the catalogue declares.
local function learned_cost(track)
  local known = costs[track.type]
  return known and known.samples >= SAMPLES_BEFORE_AVERAGE and max(1, known.average)
end

local function learn(track, measured)
  local known = costs[track.type] or { samples = 0, average = 0 }
  known.samples = min(known.samples + 1, SAMPLES_BEFORE_AVERAGE)
  known.average, known.is_changed = known.average + floor((measured - known.average) / known.samples), true
  costs[track.type] = known
end

local function write_pool()
  local fields = { "clock", format("%d", clock), "seq", format("%d", seq), "turn", format("%d", turn) }
  for index, track in ipairs(tracks) do
    if track.is_changed then
      fields[#fields + 1] = "track:" .. index
      fields[#fields + 1] = format("%d %s %d %d %s", track.lag, track.blocked_at and format("%d", track.blocked_at) or "-",
        track.waiting, track.running, track.name)
    end
  end
  for node_type, known in pairs(costs) do
    if known.is_changed then
      fields[#fields + 1] = "cost:" .. node_type
      fields[#fields + 1] = format("%d %d", known.samples, known.average)
    end
  end
  call_with("HSET", POOL, fields)
end
