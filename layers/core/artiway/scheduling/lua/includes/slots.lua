--[[ slots: what a running node holds, and what follows when it takes or frees it.
  RUNNING  hash: node -> "tenant|user|type|lane|model|step|cost|rank|charged|tag|seq"
  LEASES   zset: arrival|node by the time by which the node has to be confirmed
  service:<minute>  hash: tenant -> GPU time, of minutes that are over for the tenant ]]
local RUN = "^([^|]+)|([^|]+)|([^|]+|[^|]+|[^|]*|[^|]*)|(%d+)|(%d)|(%d+)|%-?%d+|(%d+)$"

local function serve(tenant, cost)
  local minute = floor(now_ms / 60000)
  if tenant.minute ~= minute then
    if tenant.served ~= 0 then
      local key = PREFIX .. "service:" .. format("%d", tenant.minute)
      call("HINCRBY", key, tenant.id, tenant.served)
      call("EXPIRE", key, SERVICE_KEPT_S)
    end
    tenant.minute, tenant.served = minute, 0
  end
  tenant.served = tenant.served + cost
  change(tenant)
end

local function count_slot(tenant, user, track, step)
  tenant.running, track.running, track.is_changed = tenant.running + step, track.running + step, true
  count_user(tenant, user, step)
  change(tenant)
end

-- A tenant at its cap has no heads, and so costs nothing while it waits.
local function cap_tenant(tenant)
  if not tenant.is_capped and tenant.running >= tenant.cap then
    tenant.is_capped = true
    change(tenant)
    if tenant.heads > 0 then
      for _, work in ipairs(waiting_works(tenant)) do
        if work.tag then
          refund_head(work)
        end
      end
    end
  end
end

local function uncap_tenant(tenant)
  if tenant.is_capped and tenant.running < tenant.cap then
    tenant.is_capped, tenant.since = false, now_ms
    change(tenant)
    local firsts = {}
    for _, work in ipairs(waiting_works(tenant)) do
      local row = call("ZRANGE", work.users, 0, 0, "WITHSCORES")
      if row[1] then
        firsts[#firsts + 1] = { work = work, rank = floor(row[2] / USER_RANK), seq = tonumber(sub(row[1], 1, 13)), user = sub(row[1], 15) }
      end
    end
    table.sort(firsts, function(a, b) return a.rank < b.rank or (a.rank == b.rank and a.seq < b.seq) end)
    for _, first in ipairs(firsts) do
      tag_head(first.work, first_cost(first.work, first.user), first.seq, true, true)
    end
    if firsts[1] then
      -- It keeps what it overpaid, but no more than one of its nodes: the rest it could not have used.
      tenant.credit = min(tenant.credit, charge(tenant.dearest, tenant.weight))
    end
  end
end

-- Frees what a running node holds and corrects its tenant's clock by what it really cost.
local function release(tenant, user, track, charged, measured)
  local correction = measured and measured - charged or 0
  count_slot(tenant, user, track, -1)
  if correction ~= 0 then
    local owed = floor(correction / tenant.weight)
    if owed > 0 then
      tenant.last = tenant.last + owed
    else
      tenant.credit = tenant.credit - owed
    end
    serve(tenant, correction)
  end
  if has_user_caps(tenant) then
    refresh_user(tenant, user, false)
  end
  uncap_tenant(tenant)
end

-- Reads the records of running nodes with their tenants. Answers rows by id.
local function read_running(ids)
  local texts, rows, owners = read_with("HMGET", RUNNING, ids), {}, {}
  for i, id in ipairs(ids) do
    if texts[i] and not rows[id] then
      local owner, user, name, cost, rank, charged, of = match(texts[i], RUN)
      rows[id] = { owner = owner, user = user, track = track_named[name], cost = cost, rank = rank,
        charged = tonumber(charged), seq = of }
      owners[#owners + 1] = owner
    end
  end
  read_tenants(owners)
  return rows
end
