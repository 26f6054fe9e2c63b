--[[ release: gives back what a running node holds and corrects its tenant's clock by what it really cost. ]]
local function release(node, measured)
  local tenant, track = node.tenant, node.track
  write_node(node.id, false)
  lease_drops[#lease_drops + 1] = node.id
  free_slot(tenant.slots_key, node.id)
  free_slot(user_slots_at .. tenant.id .. "|" .. node.user, node.id)
  free_slot(track_slots_at .. track.index, node.id)
  track.running, track.is_changed = track.running - 1, true
  local correction = (measured or node.charged) - node.charged
  if correction ~= 0 then
    tenant_for(tenant.id)
    local owed = floor(correction / tenant.weight)
    if owed > 0 then
      tenant.last = tenant.last + owed
    else
      tenant.credit = tenant.credit - owed
    end
    tenant.is_changed = true
    serve(tenant, correction)
  end
  if user_cap(tenant, node.user) ~= UNLIMITED then
    refresh_all(tenant_for(tenant.id), node.user, false)
  end
  uncap_tenant(tenant)
end

local function learn(kind, measured)
  local known = costs[kind] or { samples = 0, average = 0 }
  known.samples = min(known.samples + 1, SAMPLES_BEFORE_AVERAGE)
  known.average = known.average + floor((measured - known.average) / known.samples)
  costs[kind] = known
  known.is_changed = true
end

-- Takes lines of node|measured and answers one word per line.
local function complete(lines)
  local verdicts, ids, measures = {}, {}, {}
  for id, measured in gmatch(lines, "([^|\n]+)|(%d*)") do
    ids[#ids + 1], measures[#ids + 1] = id, measured
  end
  read_nodes(ids)
  local owners = {}
  for _, id in ipairs(ids) do
    owners[#owners + 1] = node_rows[id] and match(node_rows[id], "^r|%d+|%d+|%d+|([^|]+)|") or nil
  end
  read_tenants(owners)
  for i, id in ipairs(ids) do
    local measured = measures[i]
    local node = node_at(id)
    if node and node.is_running then
      measured = tonumber(measured)
      release(node, measured)
      if measured then
        learn(node.track.kind, measured)
      end
      verdicts[#verdicts + 1] = "ended"
    else
      verdicts[#verdicts + 1] = "not_running"
    end
  end
  for kind, known in pairs(costs) do
    if known.is_changed then
      change("c:" .. kind, int(known.samples) .. " " .. int(known.average))
    end
  end
  return table.concat(verdicts, "\n")
end
