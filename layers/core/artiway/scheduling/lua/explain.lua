--[[ explain -> JSON {state, ...} | "stale": where a node stands and everything that could hold it. Writes nothing.
  ARGV[3] node ]]
--@include pool
--@include heads
if is_stale() then
  return "stale"
end
local node = node_at(ARGV[3])
if not node then
  return cjson.encode({ state = "unknown" })
end
local tenant, track = tenant_for(node.tenant.id), node.track
local cap, each_cap = tenant.cap, user_cap(tenant, node.user)
local answer = {
  state = node.is_running and "running" or "waiting",
  track = track.name,
  tenant_running = tenant_running(tenant),
  user_running = call("SCARD", user_slots_at .. tenant.id .. "|" .. node.user),
}
if cap ~= UNLIMITED then answer.tenant_cap = cap end
if each_cap ~= UNLIMITED then answer.user_cap = each_cap end
if not node.is_running then
  local spot = track.key .. tenant.id
  answer.before_of_user = call("ZRANK", fifo_at .. spot .. "|" .. node.user, int(node.cost) .. "|" .. node.id)
  local head = tenant.heads[track.index]
  if head then
    answer.tag = int(head.tag + track.lag)
    answer.tenants_before = call("ZRANK", heads_at .. track.index, padded(head.seq) .. "|" .. tenant.id)
  end
end
return cjson.encode(answer)
