--[[ adopt -> "adopted" | "duplicate" per node, "unknown_tenant" + ids, "stale": nodes that run already take their slots.
  ARGV[3] nodes  lines node|tenant|user|type|lane|model|cost|charged|lease_ms; an empty lease is a confirmed node ]]
--@include pool
--@include arguments
--@include heads
check(ARGV[3], "^[^|]+|[^|]+|[^|]+|[^|]+|[^|]+|[^|]*|%d+|%d+|%d*$", "node")
if is_stale() then
  return "stale"
end
local NODES = "([^|\n]+)|([^|\n]+)|([^|\n]+)|([^|\n]+|[^|\n]+|[^|\n]*)|(%d+)|(%d+)|(%d*)"
local missing = {}
for _, tenant in gmatch(ARGV[3], NODES) do
  if not policy_of(tenant) then
    missing[#missing + 1] = tenant
  end
end
if missing[1] then
  return "unknown_tenant\n" .. table.concat(missing, "\n")
end
local verdicts = {}
for id, owner, user, track, cost, charged, lease_ms in gmatch(ARGV[3], NODES) do
  if node_at(id) then
    verdicts[#verdicts + 1] = "duplicate"
  else
    seq = seq + 1
    local tenant = tenant_for(owner)
    hold_slots({
      id = id, tenant = tenant, user = user, track = track_for(track), cost = tonumber(cost), seq = seq, charged = tonumber(charged),
    })
    if lease_ms ~= "" then
      lease_adds[#lease_adds + 1], lease_adds[#lease_adds + 2] = lease_ms, id
    end
    cap_tenant(tenant)
    if is_user_capped(tenant, user) then
      refresh_all(tenant, user, true)
    end
    verdicts[#verdicts + 1] = "adopted"
  end
end
write_back()
return record("adopt", table.concat(verdicts, "\n"))
