--[[ heads: keeps the heads of users and tenants in step with the queues. ]]
local firsts = {} -- the first head of each track, as far as this call knows it

local function add_head(tenant, index, tag, cost, place)
  tenant.heads[index] = { tag = tag, cost = cost, seq = place }
  tenant.is_changed, firsts[index] = true, nil
  call("ZADD", heads_at .. index, int(tag), padded(place) .. "|" .. tenant.id)
end

local function drop_head(tenant, index)
  call("ZREM", heads_at .. index, padded(tenant.heads[index].seq) .. "|" .. tenant.id)
  tenant.heads[index] = nil
  tenant.is_changed, firsts[index] = true, nil
end

local function charge(cost, weight)
  return math.ceil(cost / weight)
end

local function cost_of(track, declared)
  local known = costs[track.kind]
  if known and known.samples >= SAMPLES_BEFORE_AVERAGE then
    return math.max(1, known.average)
  end
  return declared
end

local function user_cap(tenant, user)
  local own = has_user_caps and call("HGET", user_caps_key, tenant.id .. "|" .. user)
  return own and tonumber(own) or tenant.user_cap
end

local function is_user_capped(tenant, user)
  local cap = user_cap(tenant, user)
  return cap ~= UNLIMITED and call("SCARD", user_slots_at .. tenant.id .. "|" .. user) >= cap
end

-- A tag is max(clock, last) + cost/weight. A tenant that comes back from its cap, or with a rebuild, goes in at the clock
-- and not a node behind it: the cap was its wait.
local function tag_tenant(tenant, track, place, cost, is_return)
  local due = charge(cost, tenant.weight)
  local tag = math.max(is_return and clock - due or clock, tenant.last) + due
  -- Overpaid cost brings a tag forward, but not before the clock; what is left waits for the next head.
  local used = math.min(tenant.credit, tag - clock)
  tenant.credit = tenant.credit - used
  tenant.last = tag - used
  add_head(tenant, track.index, tenant.last - track.lag, cost, place)
end

local function first_of_crowd(tenant, track)
  local member = call("ZRANGE", crowd_at .. track.index .. "|" .. tenant.id, 0, 0)[1]
  if member then
    local place, cost, user = string.match(member, "^(%d+)|(%d+)|(.+)$")
    return tonumber(place), tonumber(cost), user
  end
end

local function refresh_tenant(tenant, track, is_return, is_continuing)
  local place, cost = first_of_crowd(tenant, track)
  if not place then
    call("DEL", clock_at .. track.index .. "|" .. tenant.id)
  end
  if tenant.is_capped then
    return
  end
  local head = tenant.heads[track.index]
  if not place then
    if head then -- never dispatched, so never charged
      tenant.last = tenant.last - charge(head.cost, tenant.weight)
      drop_head(tenant, track.index)
    end
  elseif not head then
    if not next(tenant.heads) and not is_continuing then
      tenant.credit = 0
      tenant.since = int(now_ms)
    end
    tag_tenant(tenant, track, place, cost, is_return)
  elseif head.seq ~= place then
    local difference = charge(cost, tenant.weight) - charge(head.cost, tenant.weight)
    drop_head(tenant, track.index)
    tenant.last = tenant.last + difference
    add_head(tenant, track.index, head.tag + difference, cost, place)
  end
end

-- Brings a user's head in line with its queue and its cap, then the tenant's with the user's.
local function refresh(tenant, user, track, is_return, is_continuing)
  local spot = track.index .. "|" .. tenant.id
  local crowd, clock_key = crowd_at .. spot, clock_at .. spot
  local first = call("ZRANGE", fifo_at .. spot .. "|" .. user, 0, 0, "WITHSCORES")
  local known = call("HMGET", clock_key, "|", user)
  local old = known[2]
  if not first[1] or is_user_capped(tenant, user) then
    if old then
      call("ZREM", crowd, old)
      call("HDEL", clock_key, user)
    end
  else
    local old_place, old_cost
    if old then
      old_place, old_cost = string.match(old, "^(%d+)|(%d+)|")
    end
    local place = tonumber(first[2])
    if tonumber(old_place) ~= place then
      local cost = cost_of(track, tonumber(string.match(first[1], "^(%d+)|")))
      local start = tonumber(known[1] or 0)
      if old then
        start = tonumber(call("ZSCORE", crowd, old)) - tonumber(old_cost)
        call("ZREM", crowd, old)
      end
      local member = padded(place) .. "|" .. int(cost) .. "|" .. user
      call("ZADD", crowd, int(start + cost), member)
      call("HSET", clock_key, user, member)
    end
  end
  refresh_tenant(tenant, track, is_return, is_continuing)
end

local function refresh_all(tenant, user, is_continuing)
  for _, track in ipairs(tracks) do
    if call("EXISTS", fifo_at .. track.index .. "|" .. tenant.id .. "|" .. user) == 1 then
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
    tenant.is_capped, tenant.is_changed, tenant.credit = false, true, 0
    tenant.since = int(now_ms)
    local firsts = {}
    for _, track in ipairs(tracks) do
      local place, cost = first_of_crowd(tenant, track)
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
  local fifo = fifo_at .. track.index .. "|" .. tenant.id .. "|" .. user
  call("HSET", nodes_key, id, "w|" .. track.index .. "|" .. int(cost) .. "|" .. int(place) .. "|" .. tenant.id .. "|" .. user)
  call("ZADD", fifo, place, int(cost) .. "|" .. id)
  track.waiting, track.is_changed = track.waiting + 1, true
  tenant.waiting, tenant.is_changed = tenant.waiting + 1, true
  local length = call("ZCARD", fifo)
  if length == 1 then
    call("SADD", people_at .. tenant.id, user)
  end
  if length == 1 or place < seq then
    refresh(tenant, user, track, is_return, false)
  end
end

local function node_at(id)
  local row = call("HGET", nodes_key, id)
  if not row then
    return nil
  end
  local state, track, cost, place, tenant, user, charged =
    string.match(row, "^(%a)|(%d+)|(%d+)|(%d+)|([^|]+)|([^|]+)|?(%d*)$")
  return {
    id = id, is_running = state == "r", track = tracks[tonumber(track)], cost = tonumber(cost), seq = tonumber(place),
    tenant = tenant_for(tenant), user = user, charged = tonumber(charged),
  }
end

local function hold_slots(node)
  local held = call("SADD", tenant_slots_at .. node.tenant.id, node.id)
  call("SADD", user_slots_at .. node.tenant.id .. "|" .. node.user, node.id)
  call("SADD", track_slots_at .. node.track.index, node.id)
  if node.tenant.running then
    node.tenant.running = node.tenant.running + held
  end
  node.track.running, node.track.is_changed = node.track.running + held, true
  call("HSET", nodes_key, node.id, "r|" .. node.track.index .. "|" .. int(node.cost) .. "|" .. int(node.seq) .. "|"
    .. node.tenant.id .. "|" .. node.user .. "|" .. int(node.charged))
end
