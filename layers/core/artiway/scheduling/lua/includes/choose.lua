--[[ choose: takes the smallest tags whose tracks are open, one after the other. ]]
local PASS_OVER_LIMIT = 24
local limits -- counted once per call, then kept in step

local function count_limits()
  limits = { kinds = {}, lanes = {}, models = {}, running = 0, slots = 0 }
  for _, count in pairs(slots) do
    limits.slots = limits.slots + count
  end
  if capacity ~= UNLIMITED then
    limits.slots = capacity
  end
  for _, track in ipairs(tracks) do
    limits.running = limits.running + track.running
    limits.kinds[track.kind] = (limits.kinds[track.kind] or 0) + track.running
    limits.lanes[track.lane] = (limits.lanes[track.lane] or 0) + track.running
    limits.models[track.model] = (limits.models[track.model] or 0) + track.running
  end
end

local function lane_limit(lane)
  local limit = parallelism[lane] or UNLIMITED
  if share[lane] then
    limit = math.min(limit, math.max(1, math.floor(limits.slots * share[lane] / 100)))
  end
  return limit
end

local function is_open(track)
  return not paused[track.lane]
    and limits.running < capacity
    and limits.kinds[track.kind] < (slots[track.kind] or 0)
    and limits.lanes[track.lane] < lane_limit(track.lane)
    and (not models[track.model] or limits.models[track.model] < models[track.model])
end

local function first_on(track)
  local head = call("ZRANGE", heads_at .. track.index, 0, 0, "WITHSCORES")
  if not head[1] then
    return false
  end
  local place, tenant = string.match(head[1], "^(%d+)|(.+)$")
  return { track = track, tenant = tenant, seq = tonumber(place), tag = tonumber(head[2]) + track.lag }
end

local function is_before(a, b)
  return not b or a.tag < b.tag or (a.tag == b.tag and a.seq < b.seq)
end

-- A head whose model is loaded may pass a few others, if none of them could fall behind by more than the bound.
local function is_fair_to_prefer(choice, open)
  local passed = 0
  for _, track in ipairs(open) do
    local ahead = call("ZRANGE", heads_at .. track.index, 0, PASS_OVER_LIMIT, "WITHSCORES")
    for i = 1, #ahead, 2 do
      local place, id = string.match(ahead[i], "^(%d+)|(.+)$")
      local other = { seq = tonumber(place), tag = tonumber(ahead[i + 1]) + track.lag }
      if not is_before(other, choice) then
        break
      end
      passed = passed + 1
      if passed > PASS_OVER_LIMIT then
        return false
      end
      if id ~= choice.tenant then
        local tenant = tenant_for(id)
        local cost = tenant.heads[track.index].cost
        local latest = other.tag - charge(cost, tenant.weight) + charge(math.max(cost, tenant.dearest), tenant.weight)
        if choice.tag > latest then
          return false
        end
      end
    end
  end
  return true
end

local function best_choice(warm)
  local best, preferred
  local open = {}
  for _, track in ipairs(tracks) do
    if is_open(track) then
      if firsts[track.index] == nil then
        firsts[track.index] = first_on(track)
      end
      local first = firsts[track.index]
      if first then
        open[#open + 1] = track
        if is_before(first, best) then best = first end
        if warm[track.model] and is_before(first, preferred) then preferred = first end
      end
    end
  end
  if preferred and preferred ~= best and is_fair_to_prefer(preferred, open) then
    return preferred, best
  end
  return best, best
end

-- While a track is blocked its time stands still: its tags move along with the clock.
local function advance(to)
  local step = to - clock
  if step > 0 then
    for _, track in ipairs(tracks) do
      if not is_open(track) then
        track.lag, track.is_changed = track.lag + step, true
      end
    end
    clock = to
  end
end

local function take(choice, lease_ms)
  local track, tenant = choice.track, tenant_for(choice.tenant)
  local spot = track.index .. "|" .. tenant.id
  local crowd, clock_key = crowd_at .. spot, clock_at .. spot
  local cost = tenant.heads[track.index].cost
  drop_head(tenant, track.index)
  tenant.last = math.max(tenant.last, choice.tag)
  tenant.dearest = math.max(tenant.dearest, cost)

  local first = call("ZRANGE", crowd, 0, 0, "WITHSCORES")
  local user = string.match(first[1], "^%d+|%d+|(.+)$")
  local fifo = fifo_at .. spot .. "|" .. user
  local ahead = call("ZRANGE", fifo, 0, 1, "WITHSCORES")
  local declared, id = string.match(ahead[1], "^(%d+)|(.+)$")
  local node = { id = id, tenant = tenant, user = user, track = track, cost = tonumber(declared), seq = choice.seq, charged = cost }
  call("ZREM", fifo, ahead[1])
  call("ZREM", crowd, first[1])
  call("ZADD", leases_key, int(now_ms + lease_ms), id)
  hold_slots(node)
  tenant.waiting, track.waiting = tenant.waiting - 1, track.waiting - 1
  limits.running = limits.running + 1
  limits.kinds[track.kind] = limits.kinds[track.kind] + 1
  limits.lanes[track.lane] = limits.lanes[track.lane] + 1
  limits.models[track.model] = limits.models[track.model] + 1
  serve(tenant, cost)

  -- A crowd's clock never falls behind a member's tag, so a user's next tag is the clock and its cost.
  local crowd_clock = math.max(tonumber(call("HGET", clock_key, "|") or 0), tonumber(first[2]))
  cap_tenant(tenant)
  if ahead[3] and not is_user_capped(tenant, user) then
    local next_cost = cost_of(track, tonumber(string.match(ahead[3], "^(%d+)|")))
    local member = padded(tonumber(ahead[4])) .. "|" .. int(next_cost) .. "|" .. user
    call("ZADD", crowd, int(crowd_clock + next_cost), member)
    call("HSET", clock_key, "|", int(crowd_clock), user, member)
  else
    call("HSET", clock_key, "|", int(crowd_clock))
    call("HDEL", clock_key, user)
    if is_user_capped(tenant, user) then
      refresh_all(tenant, user, true)
    end
  end
  refresh_tenant(tenant, track, false, true)
  return node
end

-- Answers one line per node: id|tenant|user|type|lane|model|cost|charged|tag.
local function dispatch(limit, lease_ms, warm)
  count_limits()
  local lines = {}
  while #lines < limit do
    local choice, first = best_choice(warm)
    if not choice then
      break
    end
    advance(first.tag)
    local node = take(choice, lease_ms)
    lines[#lines + 1] = node.id .. "|" .. node.tenant.id .. "|" .. node.user .. "|" .. choice.track.name .. "|"
      .. int(node.cost) .. "|" .. int(node.charged) .. "|" .. int(choice.tag)
  end
  return table.concat(lines, "\n")
end

local function words(lines)
  local set = {}
  for word in string.gmatch(lines, "[^\n]+") do
    set[word] = true
  end
  return set
end
