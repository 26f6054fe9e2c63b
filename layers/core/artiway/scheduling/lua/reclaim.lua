--[[ reclaim -> lines of ids, or "stale": nodes that were taken and never confirmed go back to their old place.
  ARGV[3] limit  nodes per call ]]
--@include pool
--@include arguments
--@include heads
--@include release
local limit = check_number(ARGV[3], "limit")
if is_stale() then
  return "stale"
end
local overdue = call("ZRANGEBYSCORE", leases_key, "-inf", ARGV[2], "LIMIT", 0, limit)
for _, id in ipairs(overdue) do
  local node = node_at(id)
  if node and node.is_running then
    release(node, 0)
    put(id, tenant_for(node.tenant.id), node.user, node.track, node.cost, node.seq, false)
  else
    lease_drops[#lease_drops + 1] = id
  end
end
if not overdue[1] then
  return ""
end
write_back()
return record("reclaim", table.concat(overdue, "\n"))
