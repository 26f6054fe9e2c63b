--[[ cancel -> "cancelled" | "running" | "unknown" per node, or "stale": nodes that wait leave the queue at once.
  ARGV[3] nodes  lines of ids; one that runs is the worker's to stop, and ends by complete ]]
--@include pool
--@include heads
if is_stale() then
  return "stale"
end
local verdicts = {}
for id in gmatch(ARGV[3], "[^\n]+") do
  local node = node_at(id)
  if not node then
    verdicts[#verdicts + 1] = "unknown"
  elseif node.is_running then
    verdicts[#verdicts + 1] = "running"
  else
    local tenant, track = tenant_for(node.tenant.id), node.track
    write_node(id, false)
    call("ZREM", fifo_at .. track.key .. tenant.id .. "|" .. node.user, int(node.cost) .. "|" .. id)
    tenant.waiting, tenant.is_changed = tenant.waiting - 1, true
    track.waiting, track.is_changed = track.waiting - 1, true
    refresh(tenant, node.user, track, false, false)
    verdicts[#verdicts + 1] = "cancelled"
  end
end
write_back()
return record("cancel", table.concat(verdicts, "\n"))
