--[[ tracks: what is open. While a track is blocked its time stands still: its tags move along with the pool's clock. ]]
local function counted(counts, name)
  local count = counts[name]
  if not count then
    count = { running = 0, limit = UNLIMITED }
    counts[name] = count
  end
  return count
end

local function track_for(name)
  local track = queue.track_named[name]
  if not track then
    local kind, lane, model = match(name, "^([^|]+)|([^|]+)|([^|]*)$")
    track = {
      index = #queue.tracks + 1, name = name, kind = kind, lane = lane, model = model,
      of_kind = counted(queue.kinds, kind), of_lane = counted(queue.lanes, lane), of_model = counted(queue.of_model, model),
      contest = new_contest(), waiting = 0, running = 0, is_open = true, lag = 0, blocked_at = 0,
    }
    queue.tracks[track.index], queue.track_named[name] = track, track
    queue.are_limits_known = false
  end
  return track
end

local function lag_of(track)
  return track.is_open and track.lag or track.lag + queue.clock - track.blocked_at
end

-- A share of a small pool is one slot, not none.
local function lane_limit(lane, pool_slots)
  if queue.paused[lane] then
    return 0
  end
  local limit = queue.parallelism[lane] or UNLIMITED
  if queue.share[lane] then
    limit = min(limit, max(1, floor(pool_slots * queue.share[lane] / 100)))
  end
  return limit
end

local function know_limits()
  local pool_slots = 0
  for _, count in pairs(queue.slots) do
    pool_slots = pool_slots + count
  end
  if queue.capacity ~= UNLIMITED then
    pool_slots = queue.capacity
  end
  queue.everything.limit = queue.capacity
  for kind, count in pairs(queue.kinds) do
    count.limit = queue.slots[kind] or 0
  end
  for lane, count in pairs(queue.lanes) do
    count.limit = lane_limit(lane, pool_slots)
  end
  for model, count in pairs(queue.of_model) do
    count.limit = queue.models[model] or UNLIMITED
  end
  queue.are_limits_known = true
end

-- The tracks that are open. Only a dispatch moves the clock, so it is time enough to look when one begins or fills a limit.
local function open_tracks()
  if not queue.are_limits_known then
    know_limits()
  end
  local everything, open = queue.everything, {}
  local is_room = everything.running < everything.limit
  for _, track in ipairs(queue.tracks) do
    local kind, lane, model = track.of_kind, track.of_lane, track.of_model
    local is_open = is_room and kind.running < kind.limit and lane.running < lane.limit and model.running < model.limit
    if is_open and not track.is_open then
      track.lag, track.is_open = lag_of(track), true
    elseif track.is_open and not is_open then
      track.blocked_at, track.is_open = queue.clock, false
    end
    if is_open then
      open[#open + 1] = track
    end
  end
  return open
end
