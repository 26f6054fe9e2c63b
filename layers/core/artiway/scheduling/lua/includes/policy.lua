--[[ policy: a tenant's weight and caps, which act on what waits at once. ]]
local function users_of(tenant)
  local people, seen = {}, {}
  for index, line in pairs(tenant.lines) do
    for _, user in ipairs(line.user == "*" and call("HKEYS", roll_at .. index .. "|" .. tenant.id) or { line.user }) do
      if not seen[user] then
        people[#people + 1], seen[user] = user, true
      end
    end
  end
  table.sort(people)
  return people
end

local function set_tenant(id, weight, cap, each_user_cap)
  local tenant = tenant_for(id)
  if not tenant then
    tenants[id] = {
      id = id, weight = tonumber(weight), cap = tonumber(cap) or UNLIMITED, user_cap = tonumber(each_user_cap) or UNLIMITED,
      last = 0, credit = 0, dearest = 0, waiting = 0, is_capped = false, since = now_ms, heads = {}, lines = {},
      slots_key = tenant_slots_at .. id,
      is_changed = true,
    }
    cap_tenant(tenants[id])
    return tenants[id]
  end
  local old_weight, old_user_cap = tenant.weight, tenant.user_cap
  tenant.weight, tenant.cap = tonumber(weight), tonumber(cap) or UNLIMITED
  tenant.user_cap, tenant.is_changed = tonumber(each_user_cap) or UNLIMITED, true
  if tenant.weight ~= old_weight then
    for index, head in pairs(tenant.heads) do
      local difference = charge(head.cost, tenant.weight) - charge(head.cost, old_weight)
      tenant.last = tenant.last + difference
      add_head(tenant, index, head.tag + difference, head.cost, head.seq)
    end
  end
  cap_tenant(tenant)
  if tenant.user_cap ~= old_user_cap then
    local people = users_of(tenant)
    for _, user in ipairs(people) do
      refresh_all(tenant, user, false)
    end
  end
  uncap_tenant(tenant)
  return tenant
end

local function set_tenants(lines)
  for id, weight, cap, each_user_cap in gmatch(lines, "([^|\n]+)|(%d+)|(%d*)|(%d*)") do
    set_tenant(id, weight, cap, each_user_cap)
  end
end
