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
check(ARGV[4], NODE, "node")
if is_stale() then
  return "stale"
end

local NODES = "([^|\n]+)|([^|\n]+)|([^|\n]+)|([^|\n]+|[^|\n]+|[^|\n]*)|(%d+)"
local known, missing, new_tracks = {}, {}, 0
for tenant in string.gmatch(ARGV[3], "([^|\n]+)|%d+|%d*|%d*") do
  known[tenant] = true
end
for _, tenant, _, track in string.gmatch(ARGV[4], NODES) do
  if known[tenant] == nil then
    known[tenant] = tenant_for(tenant) and true or false
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
local verdicts, ids, is_load = {}, {}, ARGV[5] == "1"
for id in string.gmatch(ARGV[4], NODES) do
  ids[#ids + 1] = id
end
read_nodes(ids)
for id, tenant, user, track, cost in string.gmatch(ARGV[4], NODES) do
  if node_rows[id] then
    verdicts[#verdicts + 1] = "duplicate"
  else
    seq = seq + 1
    put(id, tenant_for(tenant), user, track_for(track), tonumber(cost), seq, is_load)
    verdicts[#verdicts + 1] = "queued"
  end
end
write_back()
return record("enqueue", table.concat(verdicts, "\n"))
