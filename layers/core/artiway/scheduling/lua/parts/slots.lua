--[[ slots: what a running node holds, and what follows when it takes or frees it. ]]
-- What a tenant was served in earlier minutes. The present one is kept with the tenant, where it costs no look-up.
local function keep_service(tenant)
  local service = queue.service[tenant.minute]
  if not service then
    service = {}
    queue.service[tenant.minute] = service
    for old in pairs(queue.service) do
      if old < tenant.minute - SERVICE_MINUTES then
        queue.service[old] = nil
      end
    end
  end
  service[tenant.id] = (service[tenant.id] or 0) + tenant.served
end

local function serve(tenant, cost)
  local minute = floor(now_ms / 60000)
  if tenant.minute ~= minute then
    if tenant.served ~= 0 then
      keep_service(tenant)
    end
    tenant.minute, tenant.served = minute, 0
  end
  tenant.served = tenant.served + cost
end

local function count_slots(node, step)
  local user, track, everything = node.user, node.track, queue.everything
  local tenant, kind, lane, model = user.tenant, track.of_kind, track.of_lane, track.of_model
  user.running, tenant.running, track.running = user.running + step, tenant.running + step, track.running + step
  kind.running, lane.running, model.running = kind.running + step, lane.running + step, model.running + step
  everything.running = everything.running + step
  return kind.running >= kind.limit or lane.running >= lane.limit or model.running >= model.limit
    or everything.running >= everything.limit
end

-- Answers whether a limit is full now.
local function hold_slot(node, charged, confirm_by)
  node.charged, queue.running[node] = charged, confirm_by
  return count_slots(node, 1)
end

-- A tenant at its cap contends nowhere, and so costs nothing while it waits.
local function cap_tenant(tenant)
  if not tenant.is_capped and tenant.running >= tenant.cap then
    tenant.is_capped = true
    for _, crowd in pairs(tenant.crowds) do
      if crowd.tag then
        withdraw(crowd)
      end
    end
  end
end

local function uncap_tenant(tenant)
  if tenant.is_capped and tenant.running < tenant.cap then
    tenant.is_capped, tenant.credit, tenant.since = false, 0, now_ms
    local crowds = {}
    for _, crowd in pairs(tenant.crowds) do
      crowds[#crowds + 1] = crowd
    end
    sort(crowds, function(a, b)
      local a_line, b_line = a[CROWD + 1], b[CROWD + 1]
      return a_line.seq < b_line.seq
    end)
    for _, crowd in ipairs(crowds) do
      local line = crowd[CROWD + 1]
      contend(crowd, next_tag(tenant, crowd.track, line.cost, true), line.cost, line.seq)
    end
  end
end

-- Gives back what a running node holds and corrects its tenant's clock by what it really cost.
local function release(node, measured)
  local user, correction = node.user, measured and measured - node.charged or 0
  local tenant = user.tenant
  queue.running[node] = nil
  count_slots(node, -1)
  if correction ~= 0 then
    local owed = floor(correction / tenant.weight)
    if owed > 0 then
      tenant.last = tenant.last + owed
    else
      tenant.credit = tenant.credit - owed
    end
    serve(tenant, correction)
  end
  if (user.cap or tenant.user_cap) ~= UNLIMITED then
    refresh_user(user, false)
  end
  uncap_tenant(tenant)
end

local function learn(kind, measured)
  local known = queue.costs[kind]
  if not known then
    known = { samples = 0, average = 0 }
    queue.costs[kind] = known
  end
  known.samples = min(known.samples + 1, SAMPLES_BEFORE_AVERAGE)
  known.average = known.average + floor((measured - known.average) / known.samples)
end
