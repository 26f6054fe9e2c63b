--[[ choose: takes the smallest tags whose tracks are open, one after the other. ]]
local PASS_OVER_LIMIT = 24
local everything -- { running, limit } of the pool; each track has the same for its type, lane and model

local function lane_limit(lane, pool_slots)
  local limit = parallelism[lane] or UNLIMITED
  if share[lane] then
    limit = min(limit, max(1, floor(pool_slots * share[lane] / 100)))
  end
  return limit
end

-- Counted once per call, then kept in step by take.
local function count_limits()
  local pool_slots, kinds, lanes, of_model = 0, {}, {}, {}
  for _, count in pairs(slots) do
    pool_slots = pool_slots + count
  end
  if capacity ~= UNLIMITED then
    pool_slots = capacity
  end
  everything = { running = 0, limit = capacity }
  for _, track in ipairs(tracks) do
    kinds[track.kind] = kinds[track.kind] or { running = 0, limit = slots[track.kind] or 0 }
    lanes[track.lane] = lanes[track.lane] or { running = 0, limit = paused[track.lane] and 0 or lane_limit(track.lane, pool_slots) }
    of_model[track.model] = of_model[track.model] or { running = 0, limit = models[track.model] or UNLIMITED }
    track.of_kind, track.of_lane, track.of_model = kinds[track.kind], lanes[track.lane], of_model[track.model]
    for _, limit in ipairs({ everything, track.of_kind, track.of_lane, track.of_model }) do
      limit.running = limit.running + track.running
    end
  end
end

local function is_open(track)
  local kind, lane, model = track.of_kind, track.of_lane, track.of_model
  return kind.running < kind.limit and lane.running < lane.limit and model.running < model.limit
    and everything.running < everything.limit
end

local CHUNK = 16
local chunk = CHUNK -- a dispatch of one looks at one

-- Heads are read a few at a time. `edge` is the last that was read: what comes before it is known for certain.
local function read_heads(track, heap)
  local changes, unread = head_changes[track.index] or {}, {}
  local stored = call("ZRANGE", heads_at .. track.index, heap.read, heap.read + chunk - 1, "WITHSCORES")
  for i = 1, #stored, 2 do
    local place, tenant = match(stored[i], "^(%d+)|(.+)$")
    local entry = { tag = tonumber(stored[i + 1]), seq = tonumber(place), tenant = tenant, member = stored[i] }
    heap.edge = entry
    if changes[stored[i]] == nil then
      push_head(heap, entry)
      if tenant_rows[tenant] == nil then
        unread[#unread + 1] = tenant
      end
    end
  end
  heap.read, heap.is_all = heap.read + chunk, #stored < 2 * chunk
  read_tenants(unread)
end

local function heap_of(track)
  local heap = { read = 0, is_all = false }
  for member, tag in pairs(head_changes[track.index] or {}) do
    if tag then
      local place, tenant = match(member, "^(%d+)|(.+)$")
      push_head(heap, { tag = tag, seq = tonumber(place), tenant = tenant, member = member })
    end
  end
  heaps[track.index] = heap
  return heap
end

local function is_current(track, entry)
  local changed = head_changes[track.index] and head_changes[track.index][entry.member]
  return changed == nil or changed == entry.tag
end

local function pop_head(heap)
  local last, at = table.remove(heap), 1
  if not heap[1] then
    return
  end
  while true do
    local child = 2 * at
    if not heap[child] then
      break
    end
    if heap[child + 1] and head_is_before(heap[child + 1], heap[child]) then
      child = child + 1
    end
    if not head_is_before(heap[child], last) then
      break
    end
    heap[at], at = heap[child], child
  end
  heap[at] = last
end

local function first_on(track)
  local heap = heaps[track.index] or heap_of(track)
  while true do
    local first = heap[1]
    while first and not is_current(track, first) do
      pop_head(heap)
      first = heap[1]
    end
    if heap.is_all or (first and heap.edge and not head_is_before(heap.edge, first)) then
      return first
    end
    read_heads(track, heap)
  end
end

local function is_ahead(track, entry, choice)
  local tag = entry.tag + track.lag
  return tag < choice.tag or (tag == choice.tag and entry.seq < choice.seq)
end

-- A head whose model is loaded may pass a few others, if none of them could fall behind by more than the bound.
local function is_fair_to_prefer(choice, open)
  local passed = 0
  for _, track in ipairs(open) do
    local heap, before = heaps[track.index], 0
    repeat
      local is_known = heap.is_all or (heap.edge and not is_ahead(track, heap.edge, choice))
      if not is_known then
        read_heads(track, heap)
      end
      before = 0
      for _, entry in ipairs(heap) do
        before = before + ((is_current(track, entry) and is_ahead(track, entry, choice)) and 1 or 0)
      end
    until is_known or before > PASS_OVER_LIMIT
    passed = passed + before
    if passed > PASS_OVER_LIMIT then
      return false
    end
    for _, entry in ipairs(heap) do
      if entry.tenant ~= choice.tenant and is_current(track, entry) and is_ahead(track, entry, choice) then
        local tenant = tenant_for(entry.tenant)
        local cost, weight = tenant.heads[track.index].cost, tenant.weight
        if choice.tag > entry.tag + track.lag - charge(cost, weight) + charge(max(cost, tenant.dearest), weight) then
          return false
        end
      end
    end
  end
  return true
end

-- The head to take, and the smallest tag of all.
local function best_choice(warm)
  local best, best_track, best_tag, preferred
  local open = {}
  for index, track in ipairs(tracks) do
    if is_open(track) then
      local first = tops[index]
      if first == nil then
        first = first_on(track) or false
        tops[index] = first
      end
      if first then
        local tag = first.tag + track.lag
        if warm then
          open[#open + 1] = track
          if warm[track.model] and (not preferred or tag < preferred.tag or (tag == preferred.tag and first.seq < preferred.seq)) then
            preferred = { track = track, tenant = first.tenant, seq = first.seq, tag = tag }
          end
        end
        if not best or tag < best_tag or (tag == best_tag and first.seq < best.seq) then
          best, best_track, best_tag = first, track, tag
        end
      end
    end
  end
  if not best then
    return nil
  end
  if preferred and preferred.seq ~= best.seq and is_fair_to_prefer(preferred, open) then
    return preferred, best_tag
  end
  return { track = best_track, tenant = best.tenant, seq = best.seq, tag = best_tag }, best_tag
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

-- Takes the first node of the user whose turn it is, and answers it with what the user has next.
local function take_from_line(tenant, track, spot, line)
  local fifo = fifo_at .. spot .. "|" .. line.user
  local ahead = call("ZRANGE", fifo, 0, 1, "WITHSCORES")
  call("ZREM", fifo, ahead[1])
  return ahead, line.user, line.clock + line.cost
end

local function take_from_crowd(tenant, track, spot)
  local first = call("ZRANGE", crowd_at .. spot, 0, 1, "WITHSCORES")
  local user = match(first[3], "^%d+|%d+|(.+)$")
  local fifo = fifo_at .. spot .. "|" .. user
  local ahead = call("ZRANGE", fifo, 0, 1, "WITHSCORES")
  call("ZREM", fifo, ahead[1])
  call("ZREM", crowd_at .. spot, first[3])
  return ahead, user, max(tonumber(first[2]), tonumber(first[4]))
end

-- A crowd's clock never falls behind a member's tag, so a user's next tag is the clock and its cost.
local function advance_user(tenant, track, spot, line, user, at, ahead, is_capped)
  local next_place, next_cost
  if ahead[3] and not is_capped then
    next_place, next_cost = tonumber(ahead[4]), cost_of(track, tonumber(match(ahead[3], "^(%d+)|")))
  end
  if line.user == "*" then
    if next_place then
      local member = crowd_member(next_place, next_cost, user)
      call("ZADD", crowd_at .. spot, int(at), "!", int(at + next_cost), member)
      call("HSET", roll_at .. spot, user, member)
    else
      call("ZADD", crowd_at .. spot, int(at), "!")
      if ahead[3] then
        call("HSET", roll_at .. spot, user, "")
      else
        call("HDEL", roll_at .. spot, user)
      end
      tidy_crowd(tenant, track, spot)
    end
  elseif next_place then
    line.seq, line.cost, line.clock = next_place, next_cost, at
  else
    tenant.lines[track.index] = nil
    if ahead[3] then
      make_crowd(tenant, track, spot)
      call("HSET", roll_at .. spot, user, "")
    end
  end
end

local function take(choice, lease_until)
  local track, tenant = choice.track, tenant_for(choice.tenant)
  local spot, cost = track.key .. tenant.id, tenant.heads[track.index].cost
  drop_head(tenant, track.index)
  tenant.last = max(tenant.last, choice.tag)
  tenant.dearest = max(tenant.dearest, cost)
  local line = tenant.lines[track.index]
  local ahead, user, at = (line.user == "*" and take_from_crowd or take_from_line)(tenant, track, spot, line)
  local declared, id = match(ahead[1], "^(%d+)|(.+)$")
  local node = { id = id, tenant = tenant, user = user, track = track, cost = tonumber(declared), seq = choice.seq, charged = cost }
  lease_adds[#lease_adds + 1], lease_adds[#lease_adds + 2] = lease_until, id
  hold_slots(node)
  tenant.waiting, track.waiting = tenant.waiting - 1, track.waiting - 1
  everything.running = everything.running + 1
  track.of_kind.running, track.of_lane.running = track.of_kind.running + 1, track.of_lane.running + 1
  track.of_model.running = track.of_model.running + 1
  serve(tenant, cost)

  cap_tenant(tenant)
  local is_capped = is_user_capped(tenant, user)
  advance_user(tenant, track, spot, line, user, at, ahead, is_capped)
  if is_capped then
    refresh_all(tenant, user, true)
  end
  refresh_tenant(tenant, track, false, true)
  return node
end

-- Answers one line per node: id|tenant|user|type|lane|model|cost|charged|tag.
local function dispatch(limit, lease_ms, warm)
  count_limits()
  local lines = {}
  warm = next(warm) and warm
  chunk = warm and CHUNK or max(1, min(CHUNK, limit))
  local lease_until = int(now_ms + lease_ms)
  while #lines < limit do
    local choice, smallest = best_choice(warm)
    if not choice then
      break
    end
    advance(smallest)
    local node = take(choice, lease_until)
    lines[#lines + 1] = format("%s|%s|%s|%s|%d|%d|%d", node.id, node.tenant.id, node.user, choice.track.name, node.cost,
      node.charged, choice.tag)
  end
  return table.concat(lines, "\n")
end

local function words(lines)
  local set = {}
  for word in gmatch(lines, "[^\n]+") do
    set[word] = true
  end
  return set
end
