--[[ tenants: tenants and their work, read when a call needs them first and written once at its end.
  TENANTS       hash: tenant -> doubles weight, cap, user_cap, last, credit, running, dearest, since, minute, served, heads,
                own_caps, is_capped, then the tracks on which it waits as text "1,3,". `last` is the latest tag, `since` the
                time in ms from which it has had a head, `served` the GPU time of the minute, `heads` how many of its tracks
                have one, `own_caps` how many of its users have a cap of their own; a cap of infinity is no cap
  work:<track>  hash: tenant -> doubles waiting, waiting_us, clock, turn, tag, cost, seq. `clock` is that of its users; while
                the tenant has a head there `turn` is not 0, `tag` is on the track's clock and `seq` names the node. Then
                "rank|user|node|cost" of the head, if it was alone when it came
  heads:<track> zset: turn|tenant by tag; equal tags go in order of turn
  USER_CAPS     hash: tenant|user -> cap
  USER_RUNNING  hash: tenant|user -> running nodes, of tenants whose users have caps
Records are doubles and not text: of text each number would become a string when it is read, and again when it is written,
which was half of what a node cost. ]]
local pack, unpack_numbers = struct.pack, struct.unpack
local TENANT, TENANT_SIZE, WORK, WORK_SIZE = "<ddddddddddddd", 13 * 8, "<ddddddd", 7 * 8
local tenants, changed_tenants, changed_works = {}, {}, {}
local user_steps, changed_users = {}, {}

local function new_tenant(id, weight, cap, user_cap)
  local tenant = { id = id, weight = weight, cap = cap, user_cap = user_cap, last = 0, credit = 0, running = 0, dearest = 0,
    since = now_ms, minute = 0, served = 0, heads = 0, own_caps = 0, is_capped = cap <= 0, tracks = "", work = {},
    is_changed = false }
  tenants[id] = tenant
  return tenant
end

local function parse_tenant(id, text)
  local weight, cap, user_cap, last, credit, running, dearest, since, minute, served, heads, own_caps, is_capped =
    unpack_numbers(TENANT, text)
  local tenant = { id = id, weight = weight, cap = cap, user_cap = user_cap, last = last, credit = credit, running = running,
    dearest = dearest, since = since, minute = minute, served = served, heads = heads, own_caps = own_caps,
    is_capped = is_capped == 1, tracks = sub(text, TENANT_SIZE + 1), work = {}, is_changed = false }
  tenants[id] = tenant
  return tenant
end

local function tenant_of(id)
  local tenant = tenants[id]
  if not tenant then
    local text = call("HGET", TENANTS, id)
    tenant = text and parse_tenant(id, text)
  end
  return tenant
end

-- Answers the ids of tenants that the queue does not know, each once.
local function read_tenants(ids)
  local wanted, seen, missing = {}, {}, {}
  for _, id in ipairs(ids) do
    if not tenants[id] and not seen[id] then
      wanted[#wanted + 1], seen[id] = id, true
    end
  end
  local texts = read_with("HMGET", TENANTS, wanted)
  for i, id in ipairs(wanted) do
    if texts[i] then
      parse_tenant(id, texts[i])
    else
      missing[#missing + 1] = id
    end
  end
  return missing
end

local function change(tenant)
  if not tenant.is_changed then
    tenant.is_changed = true
    changed_tenants[#changed_tenants + 1] = tenant
  end
end

local function change_work(work)
  if not work.is_changed then
    work.is_changed = true
    changed_works[#changed_works + 1] = work
  end
end

local function parse_work(tenant, track, text)
  local waiting, waiting_us, users_clock, number, tag, cost, of = 0, 0, 0, 0, 0, 0, 0
  if text then
    waiting, waiting_us, users_clock, number, tag, cost, of = unpack_numbers(WORK, text)
  end
  local stored = number ~= 0 and number
  local work = { tenant = tenant, track = track, waiting = waiting, waiting_us = waiting_us, clock = users_clock,
    tag = stored and tag, turn = number, cost = cost, seq = of, stored = stored, stored_tag = stored and tag,
    alone = text and sub(text, WORK_SIZE + 1) or "", users = users_key(track.index, tenant.id), is_changed = false }
  tenant.work[track.index] = work
  return work
end

local function work_of(tenant, track)
  return tenant.work[track.index] or parse_work(tenant, track, call("HGET", work_key(track.index), tenant.id))
end

-- Reads the work of many tenants at once. `wanted` has a list of tenants by track.
local function read_works(wanted)
  for track, list in pairs(wanted) do
    local ids, owners = {}, {}
    for _, tenant in ipairs(list) do
      if not tenant.work[track.index] and not owners[tenant.id] then
        ids[#ids + 1], owners[tenant.id] = tenant.id, tenant
      end
    end
    local texts = read_with("HMGET", work_key(track.index), ids)
    for i, id in ipairs(ids) do
      parse_work(owners[id], track, texts[i])
    end
  end
end

-- The tenant's work on the tracks where it waits, in order of the tracks.
local function waiting_works(tenant)
  local indexes, works = {}, {}
  for index in gmatch(tenant.tracks, "%d+") do
    indexes[#indexes + 1] = tonumber(index)
  end
  table.sort(indexes)
  for i, index in ipairs(indexes) do
    works[i] = work_of(tenant, tracks[index])
  end
  return works
end

local function count_waiting(work, cost, step)
  local tenant, track, before = work.tenant, work.track, work.waiting
  work.waiting, work.waiting_us = before + step, work.waiting_us + step * cost
  track.waiting, track.is_changed = track.waiting + step, true
  change_work(work)
  if before == 0 then
    tenant.tracks = tenant.tracks .. track.index .. ","
    change(tenant)
  elseif before + step == 0 then
    local from, to = find("," .. tenant.tracks, "," .. track.index .. ",", 1, true)
    tenant.tracks = sub(tenant.tracks, 1, from - 1) .. sub(tenant.tracks, to)
    change(tenant)
  end
end

local function has_user_caps(tenant)
  return tenant.own_caps > 0 or tenant.user_cap ~= UNLIMITED
end

local function count_user(tenant, user, step)
  if not has_user_caps(tenant) then
    return
  end
  local name = tenant.id .. "|" .. user
  if not user_steps[name] then
    user_steps[name], changed_users[#changed_users + 1] = 0, name
  end
  user_steps[name] = user_steps[name] + step
end

local function is_user_capped(tenant, user)
  if not has_user_caps(tenant) then
    return false
  end
  local name = tenant.id .. "|" .. user
  local cap = tenant.own_caps > 0 and tonumber(call("HGET", USER_CAPS, name)) or tenant.user_cap
  return (tonumber(call("HGET", USER_RUNNING, name)) or 0) + (user_steps[name] or 0) >= cap
end

-- The first cap of a tenant's users, or the last to go: counts the nodes that run, or forgets the counts.
local function recount_users(tenant)
  local counts, flat = {}, call("HGETALL", RUNNING)
  for i = 2, #flat, 2 do
    local owner, user = match(flat[i], "^([^|]+)|([^|]+)")
    if owner == tenant.id then
      local name = owner .. "|" .. user
      counts[name] = (counts[name] or 0) + 1
    end
  end
  for name, count in pairs(counts) do
    if has_user_caps(tenant) then
      call("HSET", USER_RUNNING, name, count)
    else
      call("HDEL", USER_RUNNING, name)
    end
  end
end

local function write_users()
  local counts, set, gone = read_with("HMGET", USER_RUNNING, changed_users), {}, {}
  for i, name in ipairs(changed_users) do
    local count = (tonumber(counts[i]) or 0) + user_steps[name]
    if count > 0 then
      set[#set + 1], set[#set + 2] = name, count
    else
      gone[#gone + 1] = name
    end
  end
  call_with("HSET", USER_RUNNING, set)
  call_with("HDEL", USER_RUNNING, gone)
end

-- Brings heads:<track> up to date, and work:<track> too where `is_end`.
local function write_works(is_end)
  local lists = {}
  for _, work in ipairs(changed_works) do
    local index, id = work.track.index, work.tenant.id
    local list = lists[index]
    if not list then
      list = { set = {}, gone = {}, heads = {}, headless = {} }
      lists[index] = list
    end
    local tag, number, stored = work.tag, work.turn, work.stored
    if stored and (not tag or stored ~= number) then
      list.headless[#list.headless + 1] = numbered(stored, id)
    end
    if tag and (stored ~= number or work.stored_tag ~= tag) then
      list.heads[#list.heads + 1], list.heads[#list.heads + 2] = tag, numbered(number, id)
    end
    work.stored, work.stored_tag = tag and number, tag
    if is_end then
      if work.waiting > 0 then
        local set = list.set
        set[#set + 1] = id
        set[#set + 1] = pack(WORK, work.waiting, work.waiting_us, work.clock, tag and number or 0, tag or 0, work.cost, work.seq)
          .. work.alone
      else
        list.gone[#list.gone + 1] = id
      end
    end
  end
  for index, list in pairs(lists) do
    call_with("ZREM", heads_key(index), list.headless)
    call_with("ZADD", heads_key(index), list.heads)
    call_with("HSET", work_key(index), list.set)
    call_with("HDEL", work_key(index), list.gone)
  end
end

local function write_tenants()
  local set = {}
  for i, tenant in ipairs(changed_tenants) do
    set[2 * i - 1] = tenant.id
    set[2 * i] = pack(TENANT, tenant.weight, tenant.cap, tenant.user_cap, tenant.last, tenant.credit, tenant.running,
      tenant.dearest, tenant.since, tenant.minute, tenant.served, tenant.heads, tenant.own_caps,
      tenant.is_capped and 1 or 0) .. tenant.tracks
  end
  call_with("HSET", TENANTS, set)
end

local function write_all()
  write_works(true)
  write_tenants()
  write_users()
  write_pool()
end
