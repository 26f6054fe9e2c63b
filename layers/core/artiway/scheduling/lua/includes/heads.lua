--[[ heads: keeps the heads of users and tenants in step with the queues. ]]
local heaps = {} -- track -> heap of heads, once a dispatch looks at it
local tops = {} -- track -> first of its heap, false for none, nil for "look again"

local function head_is_before(a, b)
  return a.tag < b.tag or (a.tag == b.tag and a.seq < b.seq)
end

local function push_head(heap, entry)
  local at = #heap + 1
  while at > 1 do
    local parent = floor(at / 2)
    if not head_is_before(entry, heap[parent]) then
      break
    end
    heap[at], at = heap[parent], parent
  end
  heap[at] = entry
end

local function add_head(tenant, index, tag, cost, place)
  local member = format("%016d|%s", place, tenant.id)
  tenant.heads[index] = { tag = tag, cost = cost, seq = place }
  tenant.is_changed, tops[index] = true, nil
  local changes = head_changes[index]
  if changes then changes[member] = tag else head_changes[index] = { [member] = tag } end
  if heaps[index] then
    push_head(heaps[index], { tag = tag, seq = place, tenant = tenant.id, member = member })
  end
end

local function drop_head(tenant, index)
  local changes, member = head_changes[index], format("%016d|%s", tenant.heads[index].seq, tenant.id)
  if changes then changes[member] = false else head_changes[index] = { [member] = false } end
  tenant.heads[index] = nil
  tenant.is_changed, tops[index] = true, nil
end

local function charge(cost, weight)
  return ceil(cost / weight)
end

local function cost_of(track, declared)
  local known = costs[track.kind]
  if known and known.samples >= SAMPLES_BEFORE_AVERAGE then
    return max(1, known.average)
  end
  return declared
end

local function tenant_running(tenant)
  return slots_held(tenant.slots_key)
end

local function user_cap(tenant, user)
  local own = has_user_caps and call("HGET", user_caps_key, tenant.id .. "|" .. user)
  return own and tonumber(own) or tenant.user_cap
end

local function is_user_capped(tenant, user)
  local cap = user_cap(tenant, user)
  return cap ~= UNLIMITED and slots_held(user_slots_at .. tenant.id .. "|" .. user) >= cap
end

-- A tag is max(clock, last) + cost/weight. A tenant that comes back from its cap, or with a rebuild, goes in at the clock
-- and not a node behind it: the cap was its wait.
local function tag_tenant(tenant, track, place, cost, is_return)
  local due = charge(cost, tenant.weight)
  local tag = max(is_return and clock - due or clock, tenant.last) + due
  -- Overpaid cost brings a tag forward, but not before the clock; what is left waits for the next head.
  local used = min(tenant.credit, tag - clock)
  tenant.credit = tenant.credit - used
  tenant.last = tag - used
  add_head(tenant, track.index, tenant.last - track.lag, cost, place)
end

local function first_of(tenant, track)
  local line = tenant.lines[track.index]
  if not line then
    return nil
  elseif line.user ~= "*" then
    return line.seq, line.cost
  end
  local member = call("ZRANGE", crowd_at .. track.key .. tenant.id, 1, 1)[1]
  if member then
    local place, cost = match(member, "^(%d+)|(%d+)|")
    return tonumber(place), tonumber(cost)
  end
end

local function refresh_tenant(tenant, track, is_return, is_continuing)
  if tenant.is_capped then
    return
  end
  local place, cost = first_of(tenant, track)
  local head = tenant.heads[track.index]
  if not place then
    if head then -- never dispatched, so never charged
      tenant.last = tenant.last - charge(head.cost, tenant.weight)
      drop_head(tenant, track.index)
    end
  elseif not head then
    if not next(tenant.heads) and not is_continuing then
      tenant.credit = 0
      tenant.since = now_ms
    end
    tag_tenant(tenant, track, place, cost, is_return)
  elseif head.seq ~= place then
    local difference = charge(cost, tenant.weight) - charge(head.cost, tenant.weight)
    drop_head(tenant, track.index)
    tenant.last = tenant.last + difference
    add_head(tenant, track.index, head.tag + difference, cost, place)
  end
end

local function crowd_member(place, cost, user)
  return format("%016d|%d|%s", place, cost, user)
end

-- A second user, or one at its cap, turns a line into a crowd.
local function make_crowd(tenant, track, spot)
  local line = tenant.lines[track.index]
  if line then
    local member = crowd_member(line.seq, line.cost, line.user)
    call("ZADD", crowd_at .. spot, int(line.clock), "!", int(line.clock + line.cost), member)
    call("HSET", roll_at .. spot, line.user, member)
  end
  tenant.lines[track.index] = { user = "*", seq = 0, cost = 0, clock = 0 }
  tenant.is_changed = true
end

-- When nobody of a crowd could go, its clock starts anew; when nobody is left, so does the crowd.
local function tidy_crowd(tenant, track, spot)
  if call("ZCARD", crowd_at .. spot) <= 1 then
    call("DEL", crowd_at .. spot)
    if call("EXISTS", roll_at .. spot) == 0 then
      tenant.lines[track.index] = nil
      tenant.is_changed = true
    end
  end
end

local function refresh_crowd(tenant, user, track, spot, first, is_capped)
  local crowd, roll = crowd_at .. spot, roll_at .. spot
  local old = call("HGET", roll, user)
  if first[1] and not is_capped then
    local place = tonumber(first[2])
    local old_place, old_cost = match(old or "", "^(%d+)|(%d+)|")
    if tonumber(old_place) ~= place then
      local cost = cost_of(track, tonumber(match(first[1], "^(%d+)|")))
      local now, start = tonumber(call("ZSCORE", crowd, "!") or 0), nil
      if old_place then
        start = tonumber(call("ZSCORE", crowd, old)) - tonumber(old_cost)
        call("ZREM", crowd, old)
      end
      local member = crowd_member(place, cost, user)
      call("ZADD", crowd, int(now), "!", int(max(now, (start or now) + cost)), member)
      call("HSET", roll, user, member)
    end
    return
  end
  if old and old ~= "" then
    call("ZREM", crowd, old)
  end
  if first[1] then
    call("HSET", roll, user, "")
  elseif old then
    call("HDEL", roll, user)
  end
  tidy_crowd(tenant, track, spot)
end

-- Brings a user's head in line with its queue and its cap, then the tenant's with the user's.
local function refresh(tenant, user, track, is_return, is_continuing)
  local spot = track.key .. tenant.id
  local first = call("ZRANGE", fifo_at .. spot .. "|" .. user, 0, 0, "WITHSCORES")
  local is_capped = first[1] and is_user_capped(tenant, user)
  local line = tenant.lines[track.index]
  if line and line.user == user and not is_capped then
    local place = tonumber(first[2])
    if not place then
      tenant.lines[track.index], tenant.is_changed = nil, true
    elseif line.seq ~= place then
      line.seq, line.cost = place, cost_of(track, tonumber(match(first[1], "^(%d+)|")))
      tenant.is_changed = true
    end
  elseif not line and first[1] and not is_capped then
    local cost = cost_of(track, tonumber(match(first[1], "^(%d+)|")))
    tenant.lines[track.index] = { user = user, seq = tonumber(first[2]), cost = cost, clock = 0 }
    tenant.is_changed = true
  elseif first[1] or (line and line.user == "*") then
    if not line or line.user ~= "*" then
      make_crowd(tenant, track, spot)
    end
    refresh_crowd(tenant, user, track, spot, first, is_capped)
  end
  refresh_tenant(tenant, track, is_return, is_continuing)
end

local function refresh_all(tenant, user, is_continuing)
  for _, track in ipairs(tracks) do
    if call("EXISTS", fifo_at .. track.key .. tenant.id .. "|" .. user) == 1 then
      refresh(tenant, user, track, false, is_continuing)
    end
  end
end

-- A tenant at its cap has no heads anywhere, and so costs nothing while it waits.
local function cap_tenant(tenant)
  if not tenant.is_capped and tenant.cap ~= UNLIMITED and tenant_running(tenant) >= tenant.cap then
    tenant.is_capped, tenant.is_changed = true, true
    for index, head in pairs(tenant.heads) do
      tenant.last = tenant.last - charge(head.cost, tenant.weight)
      drop_head(tenant, index)
    end
  end
end

local function uncap_tenant(tenant)
  if tenant.is_capped and tenant_running(tenant) < tenant.cap then
    tenant_for(tenant.id)
    tenant.is_capped, tenant.is_changed, tenant.credit = false, true, 0
    tenant.since = now_ms
    local firsts = {}
    for _, track in ipairs(tracks) do
      local place, cost = first_of(tenant, track)
      if place then
        firsts[#firsts + 1] = { track = track, seq = place, cost = cost }
      end
    end
    table.sort(firsts, function(a, b) return a.seq < b.seq end)
    for _, first in ipairs(firsts) do
      tag_tenant(tenant, first.track, first.seq, first.cost, true)
    end
  end
end

-- Puts a node into its queue. Only the first of a queue is anybody's head, so the rest costs one ZADD.
local function put(id, tenant, user, track, cost, place, is_return)
  local spot = track.key .. tenant.id
  write_node(id, format("w|%s%d|%d|%s|%s", track.key, cost, place, tenant.id, user))
  call("ZADD", fifo_at .. spot .. "|" .. user, int(place), int(cost) .. "|" .. id)
  track.waiting, track.is_changed = track.waiting + 1, true
  tenant.waiting, tenant.is_changed = tenant.waiting + 1, true
  local line = tenant.lines[track.index]
  if not line and tenant.user_cap == UNLIMITED and not has_user_caps then -- the usual case: a lone user's first node
    tenant.lines[track.index] = { user = user, seq = place, cost = cost_of(track, cost), clock = 0 }
    return refresh_tenant(tenant, track, is_return, false)
  end
  local is_behind = line and place == seq
    and (line.user == user or (line.user == "*" and call("HEXISTS", roll_at .. spot, user) == 1))
  if not is_behind then
    refresh(tenant, user, track, is_return, false)
  end
end

local ROW = "^(%a)|(%d+)|(%d+)|(%d+)|([^|]+)|([^|]+)|?(%d*)$"

local function node_at(id)
  if node_rows[id] == nil then
    node_rows[id] = call("HGET", nodes_key, id)
  end
  if not node_rows[id] then
    return nil
  end
  local state, track, cost, place, tenant, user, charged = match(node_rows[id], ROW)
  return {
    id = id, is_running = state == "r", track = tracks[tonumber(track)], cost = tonumber(cost), seq = tonumber(place),
    tenant = policy_of(tenant), user = user, charged = tonumber(charged),
  }
end

local function hold_slots(node)
  hold_slot(node.tenant.slots_key, node.id)
  hold_slot(user_slots_at .. node.tenant.id .. "|" .. node.user, node.id)
  hold_slot(track_slots_at .. node.track.index, node.id)
  node.track.running, node.track.is_changed = node.track.running + 1, true
  write_node(node.id, format("r|%s%d|%d|%s|%s|%d", node.track.key, node.cost, node.seq, node.tenant.id, node.user, node.charged))
end
