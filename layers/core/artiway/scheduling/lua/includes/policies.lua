--[[ policies: a tenant's weight and caps, which act at once on the nodes that wait. ]]
local function refresh_users(tenant)
  local first_seq, names = {}, {}
  local function see(user)
    if not first_seq[user] then
      first_seq[user], names[#names + 1] = UNLIMITED, user
    end
  end
  for _, user in ipairs(call("SMEMBERS", held_key(tenant.id))) do
    see(user)
  end
  local works = waiting_works(tenant)
  for _, work in ipairs(works) do
    for _, member in ipairs(call("ZRANGE", work.users, 0, -1)) do
      see(sub(member, 15))
    end
  end
  for _, user in ipairs(names) do
    for _, work in ipairs(works) do
      local first = call("ZRANGE", nodes_key(work.track.index, tenant.id, user), 0, 0, "WITHSCORES")
      first_seq[user] = min(first_seq[user], first[2] and first[2] % NODE_RANK or UNLIMITED)
    end
  end
  table.sort(names, function(a, b) return first_seq[a] < first_seq[b] end)
  for _, user in ipairs(names) do
    refresh_user(tenant, user, false)
  end
end

local function set_tenant(id, weight, cap, user_cap)
  local tenant = tenants[id]
  if not tenant then
    change(new_tenant(id, weight, cap, user_cap))
    return
  end
  local old_weight, old_user_cap, had_user_caps = tenant.weight, tenant.user_cap, has_user_caps(tenant)
  if weight == old_weight and cap == tenant.cap and user_cap == old_user_cap then
    return
  end
  tenant.weight, tenant.cap, tenant.user_cap = weight, cap, user_cap
  change(tenant)
  if has_user_caps(tenant) ~= had_user_caps then
    recount_users(tenant)
  end
  if weight ~= old_weight and tenant.heads > 0 then
    for _, work in ipairs(waiting_works(tenant)) do
      if work.tag then
        local difference = charge(work.cost, weight) - charge(work.cost, old_weight)
        tenant.last, work.tag = tenant.last + difference, work.tag + difference
        change_work(work)
      end
    end
  end
  cap_tenant(tenant)
  if user_cap ~= old_user_cap then
    refresh_users(tenant)
  end
  uncap_tenant(tenant)
end

-- `rows` as check_lines(…, POLICY) answers them; their tenants are read.
local function set_tenants(rows)
  for _, row in ipairs(rows) do
    set_tenant(row[1], tonumber(row[2]), tonumber(row[3]) or UNLIMITED, tonumber(row[4]) or UNLIMITED)
  end
end
