--[[ policy: a tenant's weight and caps, which act on what waits at once. ]]
local function set_tenant(id, weight, cap, user_cap)
  local tenant = queue.tenants[id]
  if not tenant then
    tenant = { id, weight, cap, user_cap, 0, 0, 0, 0, 0, 0, 0, cap <= 0, now_ms, 0, {}, {} }
    queue.tenants[id] = tenant
    return
  end
  local old_weight, old_user_cap = tenant.weight, tenant.user_cap
  tenant.weight, tenant.cap, tenant.user_cap = weight, cap, user_cap
  if weight ~= old_weight then
    for _, crowd in pairs(tenant.crowds) do
      if crowd.tag then
        local difference = charge(crowd.cost, weight) - charge(crowd.cost, old_weight)
        tenant.last = tenant.last + difference
        contend(crowd, crowd.tag + difference, crowd.cost, crowd.seq)
      end
    end
  end
  cap_tenant(tenant)
  if user_cap ~= old_user_cap then
    local waiting = {}
    for _, user in pairs(tenant.users) do
      local since = UNLIMITED
      for index = 1, #queue.tracks do
        local line = user[USER + index]
        since = line and min(since, line.first.seq) or since
      end
      waiting[#waiting + 1] = { user = user, since = since }
    end
    sort(waiting, function(a, b) return a.since < b.since end)
    for _, one in ipairs(waiting) do
      refresh_user(one.user, false)
    end
  end
  uncap_tenant(tenant)
end

local function set_tenants(lines)
  for id, weight, cap, user_cap in gmatch(lines, "([^|\n]+)|(%d+)|(%d*)|(%d*)") do
    set_tenant(id, tonumber(weight), tonumber(cap) or UNLIMITED, tonumber(user_cap) or UNLIMITED)
  end
end

-- Tenants that nobody told us about, in the order in which they were named.
local function missing_tenants(ids)
  local missing, seen = {}, {}
  for _, id in ipairs(ids) do
    if not queue.tenants[id] and not seen[id] then
      missing[#missing + 1], seen[id] = id, true
    end
  end
  return missing[1] and "unknown_tenant\n" .. concat(missing, "\n")
end
