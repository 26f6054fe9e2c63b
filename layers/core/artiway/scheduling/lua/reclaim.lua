#!lua flags=allow-oom
--[[ reclaim -> lines of ids; "stale": nodes that were taken and never confirmed go back to their old place.
  KEYS     as in includes/keys.lua
  ARGV[1] epoch   ARGV[2] now_ms
  ARGV[3] limit   nodes per call ]]
--@include keys
--@include arguments
--@include pool
--@include tenants
--@include heads
--@include slots
--@include nodes
local limit = check_number(ARGV[3], "limit")
if not read_pool() then
  return "stale"
end
local overdue, ids, places, leases = call("ZRANGEBYSCORE", LEASES, "-inf", ARGV[2], "LIMIT", 0, limit), {}, {}, {}
for i, member in ipairs(overdue) do
  ids[i], leases[i] = sub(member, 15), member
end
local running, back = read_running(ids), {}
for _, id in ipairs(ids) do
  local node = running[id]
  if node then
    local tenant, rank, of = tenants[node.owner], tonumber(node.rank), tonumber(node.seq)
    release(tenant, node.user, node.track, node.charged, 0)
    put(work_of(tenant, node.track), node.user, id, node.cost, rank, of, false)
    places[#places + 1] = id
    places[#places + 1] = place_of(node.track, node.owner, node.user, node.cost, rank, of)
    back[#back + 1] = id
  end
end
call_with("HDEL", RUNNING, back)
call_with("ZREM", LEASES, leases)
call_with("HSET", WHERE, places)
write_all()
return concat(back, "\n")
