--[[ enqueue -> "queued" | "duplicate" per node, "unknown_tenant" + ids, "too_many_tracks", "stale": nodes become ready.
  ARGV[3] policies  lines tenant|weight|cap|user_cap, set before the nodes; an empty cap is no limit
  ARGV[4] nodes     lines node|tenant|user|type|lane|model|cost, in order of arrival
  ARGV[5] is_load   "1" while the queue is rebuilt ]]
--@include pool
--@include arguments
--@include heads
--@include policy
check(ARGV[3], POLICY, "policy")
check(ARGV[3], WEIGHT, "weight")
local NODE = "^([^|]+)|([^|]+)|([^|]+)|([^|]+|[^|]+|[^|]*)|(%d+)$"
local nodes, ids = {}, {}
for line in gmatch(ARGV[4], "[^\n]+") do
  local id, tenant, user, track, cost = match(line, NODE)
  if not id then
    error({ err = "INVALID node: " .. line })
  end
  ids[#ids + 1], nodes[#ids + 1] = id, { tenant, user, track, tonumber(cost) }
end
if is_stale() then
  return "stale"
end

local known, missing, new_tracks = {}, {}, 0
for tenant in gmatch(ARGV[3], "([^|\n]+)|%d+|%d*|%d*") do
  known[tenant] = true
end
local owners = {}
for i, node in ipairs(nodes) do
  owners[i] = node[1]
end
read_tenants(owners)
for _, node in ipairs(nodes) do
  local tenant, track = node[1], node[3]
  if known[tenant] == nil then
    known[tenant] = policy_of(tenant) and true or false
    if not known[tenant] then
      missing[#missing + 1] = tenant
    end
  end
  if not track_named[track] and not known["|" .. track] then
    known["|" .. track], new_tracks = true, new_tracks + 1
  end
end
if missing[1] then
  return "unknown_tenant\n" .. table.concat(missing, "\n")
end
if #tracks + new_tracks > TRACK_LIMIT then
  return "too_many_tracks"
end

set_tenants(ARGV[3])
read_nodes(ids)
local verdicts, is_load = {}, ARGV[5] == "1"
for i, id in ipairs(ids) do
  if node_rows[id] then
    verdicts[i] = "duplicate"
  else
    local node = nodes[i]
    seq = seq + 1
    put(id, tenant_for(node[1]), node[2], track_for(node[3]), node[4], seq, is_load)
    verdicts[i] = "queued"
  end
end
write_back()
return record("enqueue", table.concat(verdicts, "\n"))
