--[[ pool: what every verb starts and ends with.
  KEYS[1]  epoch        string: the epoch that is in force
  KEYS[2]  pool         hash: clock, seq, log, and by prefix  s:type slots  p:lane paused  n:lane parallelism  h:lane share
                        m:model limit  c:type "samples average"  k:index "type|lane|model"  d:index "lag running waiting"
  KEYS[3]  nodes        hash: node -> "w|track|cost|seq|tenant|user" (waits) or "r|...|charged" (runs)
  KEYS[4]  leases       zset: node -> deadline_ms, while nobody has confirmed that it was sent
  KEYS[5]  log          stream of decisions, bounded
  KEYS[6]  tenants      hash: tenant -> its policy, clock, heads and lone users (see policy_of)
  KEYS[7]  heads        + track           zset: "seq|tenant" -> tag, the tenants that could go
  KEYS[8]  crowd        + track|tenant    zset: "seq|cost|user" -> tag, the users that could go; "!" -> their clock
  KEYS[9]  roll         + track|tenant    hash: user -> its member in the crowd, empty while the user is at its cap
  KEYS[10] fifo         + track|tenant|user  zset: "cost|node" -> seq
  KEYS[11] tenant_slots + tenant          set of node ids;  KEYS[12] user_slots + tenant|user;  KEYS[13] track_slots + track
  KEYS[14] user_caps    hash: tenant|user -> cap
  KEYS[15] service      + minute          hash: tenant -> GPU microseconds
  ARGV[1]  epoch        of the caller; another one in force, or none, answers "stale" before any write
  ARGV[2]  now_ms       from the caller's clock
Names after a + are appended here; all share the pool's hash tag, so that one cluster node has them.
A command costs Redis more than its work, so writes are gathered and sent once, many at a time (write_back). ]]
local epoch_key, pool_key, nodes_key, leases_key, log_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local tenants_key, heads_at, crowd_at, roll_at, fifo_at = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local tenant_slots_at, user_slots_at, track_slots_at = KEYS[11], KEYS[12], KEYS[13]
local user_caps_key, service_at = KEYS[14], KEYS[15]
local now_ms = tonumber(ARGV[2])

local UNLIMITED = math.huge
local SAMPLES_BEFORE_AVERAGE = 20
local TRACK_LIMIT = 256
local CLOCK_LIMIT = 4503599627370496
local SERVICE_SECONDS = 7200
local ARGUMENTS = 4000

local call = redis.call
local match, gmatch, format, sub, byte = string.match, string.gmatch, string.format, string.sub, string.byte
local max, min, floor, ceil = math.max, math.min, math.floor, math.ceil
local clock, seq, capacity, log_length, has_user_caps = 0, 0, UNLIMITED, 0, false
local slots, paused, parallelism, share, models, costs = {}, {}, {}, {}, {}, {}
local tracks, track_named, tenants, service = {}, {}, {}, {}
local pool_changes = {}
local tenant_rows, node_rows, node_changes = {}, {}, {}
local lease_adds, lease_drops = {}, {}
local slot_adds, slot_drops, slot_counts, slot_deltas = {}, {}, {}, {}
local head_changes = {} -- track -> member -> tag, or false for a head that is gone

-- Joining a number with .. keeps fourteen digits: enough for a cost, a place or a time, not for tags and clocks.
local function int(number)
  return format("%d", number)
end

local function padded(number)
  return format("%016d", number)
end

local function change(field, value)
  pool_changes[#pool_changes + 1] = field
  pool_changes[#pool_changes + 1] = value
end

local function read_field(field, value)
  local kind, name = byte(field), sub(field, 3)
  if kind == 100 then -- d
    local lag, running, waiting = match(value, "^(%d+) (%d+) (%d+)$")
    local track = tracks[tonumber(name)] or {}
    track.lag, track.running, track.waiting = tonumber(lag), tonumber(running), tonumber(waiting)
    tracks[tonumber(name)] = track
  elseif kind == 107 then -- k
    local track = tracks[tonumber(name)] or {}
    track.index, track.key, track.name = tonumber(name), name .. "|", value
    track.kind, track.lane, track.model = match(value, "^([^|]+)|([^|]+)|([^|]*)$")
    tracks[track.index], track_named[value] = track, track
  elseif kind == 99 then -- c
    local samples, average = match(value, "^(%d+) (%d+)$")
    costs[name] = { samples = tonumber(samples), average = tonumber(average) }
  elseif kind == 115 then slots[name] = tonumber(value) -- s
  elseif kind == 112 then paused[name] = true -- p
  elseif kind == 110 then parallelism[name] = tonumber(value) -- n
  elseif kind == 104 then share[name] = tonumber(value) -- h
  else models[name] = tonumber(value) -- m
  end
end

-- A clock that nears the end of exact doubles counts as stale too: the rebuild starts it anew.
local function is_stale()
  if call("GET", epoch_key) ~= ARGV[1] then
    return true
  end
  local fields = call("HGETALL", pool_key)
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    if field == "clock" then clock = tonumber(value)
    elseif field == "seq" then seq = tonumber(value)
    elseif field == "capacity" then capacity = tonumber(value)
    elseif field == "log" then log_length = tonumber(value)
    elseif field == "user_caps" then has_user_caps = true
    else read_field(field, value) end
  end
  return clock > CLOCK_LIMIT
end

local function track_for(name)
  local track = track_named[name]
  if not track then
    local kind, lane, model = match(name, "^([^|]+)|([^|]+)|([^|]*)$")
    track = { index = #tracks + 1, key = int(#tracks + 1) .. "|", name = name, kind = kind, lane = lane, model = model, lag = 0, running = 0, waiting = 0 }
    tracks[track.index], track_named[name] = track, track
    change("k:" .. track.index, name)
    track.is_changed = true
  end
  return track
end

local function read_tenants(ids)
  for from = 1, #ids, ARGUMENTS do
    local rows = call("HMGET", tenants_key, unpack(ids, from, min(#ids, from + ARGUMENTS - 1)))
    for i, row in ipairs(rows) do
      tenant_rows[ids[from + i - 1]] = row
    end
  end
end

-- A tenant's row is "capped weight cap user_cap|" and JSON: [last, credit, dearest, waiting, since, heads, lines], with heads
-- [track, tag, cost, seq] and lines [track, user, seq, cost, clock]. A line is the only user that waits on a track, kept here
-- because most tenants have just one; "*" stands for a crowd with keys of its own. Clocks are strings, since JSON here keeps
-- fourteen digits too. Many calls need only the policy, so the rest is read when it is asked for.
local function policy_of(id)
  local tenant = tenants[id]
  if tenant == nil then
    if tenant_rows[id] == nil then
      read_tenants({ id })
    end
    tenant = false
    if tenant_rows[id] then
      local capped, weight, cap, each_user_cap, state = match(tenant_rows[id], "^([01]) (%d+) (%d*) (%d*)|(.*)$")
      tenant = {
        id = id, weight = tonumber(weight), cap = tonumber(cap) or UNLIMITED, user_cap = tonumber(each_user_cap) or UNLIMITED,
        is_capped = capped == "1", state = state, slots_key = tenant_slots_at .. id,
      }
    end
    tenants[id] = tenant
  end
  return tenant
end

local function tenant_for(id)
  local tenant = policy_of(id)
  if tenant and tenant.state then
    local row = cjson.decode(tenant.state)
    tenant.last, tenant.credit, tenant.dearest, tenant.waiting = tonumber(row[1]), tonumber(row[2]), row[3], row[4]
    tenant.since, tenant.state = row[5], nil
    local heads, lines = {}, {}
    for _, head in ipairs(row[6]) do
      heads[head[1]] = { tag = tonumber(head[2]), cost = head[3], seq = head[4] }
    end
    for _, line in ipairs(row[7]) do
      lines[line[1]] = { user = line[2], seq = line[3], cost = line[4], clock = tonumber(line[5]) }
    end
    tenant.heads, tenant.lines = heads, lines
  end
  return tenant
end

-- Written by hand: an integer costs a third of what JSON's floats do.
local function state_of(tenant)
  local heads, lines = {}, {}
  for track, head in pairs(tenant.heads) do
    heads[#heads + 1] = format('[%d,"%d",%d,%d]', track, head.tag, head.cost, head.seq)
  end
  for track, line in pairs(tenant.lines) do
    lines[#lines + 1] = format('[%d,"%s",%d,%d,"%d"]', track, line.user, line.seq, line.cost, line.clock)
  end
  local cap = tenant.cap ~= UNLIMITED and int(tenant.cap) or ""
  local each_user_cap = tenant.user_cap ~= UNLIMITED and int(tenant.user_cap) or ""
  return format('%d %d %s %s|["%d","%d",%d,%d,%d,[%s],[%s]]', tenant.is_capped and 1 or 0, tenant.weight, cap, each_user_cap,
    tenant.last, tenant.credit, tenant.dearest, tenant.waiting, tenant.since, table.concat(heads, ","), table.concat(lines, ","))
end

local function hold_slot(key, id)
  local ids = slot_adds[key]
  if ids then ids[#ids + 1] = id else slot_adds[key] = { id } end
  slot_deltas[key] = (slot_deltas[key] or 0) + 1
end

local function free_slot(key, id)
  local ids = slot_drops[key]
  if ids then ids[#ids + 1] = id else slot_drops[key] = { id } end
  slot_deltas[key] = (slot_deltas[key] or 0) - 1
end

local function slots_held(key)
  slot_counts[key] = slot_counts[key] or call("SCARD", key)
  return slot_counts[key] + (slot_deltas[key] or 0)
end

local function read_nodes(ids)
  for from = 1, #ids, ARGUMENTS do
    local rows = call("HMGET", nodes_key, unpack(ids, from, min(#ids, from + ARGUMENTS - 1)))
    for i, row in ipairs(rows) do
      node_rows[ids[from + i - 1]] = row
    end
  end
end

local function write_node(id, row)
  node_rows[id], node_changes[id] = row, true
end

local function serve(tenant, cost)
  service[tenant.id] = (service[tenant.id] or 0) + cost
end

local function call_many(command, key, list)
  for from = 1, #list, ARGUMENTS do
    call(command, key, unpack(list, from, min(#list, from + ARGUMENTS - 1)))
  end
end

local function write_heads()
  for index, members in pairs(head_changes) do
    local gone, added = {}, {}
    for member, tag in pairs(members) do
      if tag then
        added[#added + 1], added[#added + 2] = int(tag), member
      else
        gone[#gone + 1] = member
      end
    end
    call_many("ZREM", heads_at .. index, gone)
    call_many("ZADD", heads_at .. index, added)
  end
end

local function write_service()
  local ids = {}
  for id in pairs(service) do
    ids[#ids + 1] = id
  end
  if ids[1] then
    local key = service_at .. int(floor(now_ms / 60000))
    -- One long value makes Redis keep the hash as a table: as a packed list of up to 512 tenants each field is a search.
    local totals = { "|", string.rep("-", 65) }
    for from = 1, #ids, ARGUMENTS do
      local rows = call("HMGET", key, unpack(ids, from, min(#ids, from + ARGUMENTS - 1)))
      for i, total in ipairs(rows) do
        local id = ids[from + i - 1]
        totals[#totals + 1], totals[#totals + 2] = id, int(tonumber(total or 0) + service[id])
      end
    end
    call_many("HSET", key, totals)
    call("EXPIRE", key, SERVICE_SECONDS)
  end
end

-- One write per thing that changed, however often it did.
local function write_back()
  local changed = {}
  for id, tenant in pairs(tenants) do
    if tenant and tenant.is_changed then
      changed[#changed + 1], changed[#changed + 2] = id, state_of(tenant)
    end
  end
  call_many("HSET", tenants_key, changed)
  write_heads()
  local rows, gone = {}, {}
  for id in pairs(node_changes) do
    if node_rows[id] then
      rows[#rows + 1], rows[#rows + 2] = id, node_rows[id]
    else
      gone[#gone + 1] = id
    end
  end
  call_many("HDEL", nodes_key, gone)
  call_many("HSET", nodes_key, rows)
  call_many("ZREM", leases_key, lease_drops)
  call_many("ZADD", leases_key, lease_adds)
  for key, ids in pairs(slot_drops) do
    call_many("SREM", key, ids)
  end
  for key, ids in pairs(slot_adds) do
    call_many("SADD", key, ids)
  end
  for _, track in ipairs(tracks) do
    if track.is_changed then
      change("d:" .. track.index, format("%d %d %d", track.lag, call("SCARD", track_slots_at .. track.index), track.waiting))
    end
  end
  write_service()
  change("clock", int(clock))
  change("seq", int(seq))
  call("HSET", pool_key, unpack(pool_changes))
end

-- The arguments and the answer of a call are the record: replaying them on the oracle gives the same answer.
local function record(verb, answer)
  if log_length > 0 then
    call("XADD", log_key, "MAXLEN", "~", log_length, "*", "verb", verb, "now", ARGV[2], "in", table.concat(ARGV, "\t", 3), "out", answer)
  end
  return answer
end
