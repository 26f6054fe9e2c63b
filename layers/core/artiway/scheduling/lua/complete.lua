#!lua flags=allow-oom
--[[ complete -> "ended" | "not_running" per node, a blank line, the lines of dispatch; "stale": nodes ended, others go.
  KEYS     as in includes/keys.lua
  ARGV[1] epoch   ARGV[2] now_ms
  ARGV[3] limit      of the dispatch that follows in the same call; 0 for none
  ARGV[4] lease_ms   as in dispatch
  ARGV[5] ends       lines node|measured; empty when nothing was measured
  ARGV[6] confirmed  lines of nodes whose message was sent ]]
--@include keys
--@include arguments
--@include pool
--@include tenants
--@include heads
--@include slots
--@include dispatch
local limit, lease_ms = check_number(ARGV[3], "limit"), check_number(ARGV[4], "lease_ms")
local ends, measures = check_pairs(ARGV[5], "end")
local confirmed = check_ids(ARGV[6])
if not read_pool() then
  return "stale"
end
local ids, seen = {}, {}
for _, list in ipairs({ ends, confirmed }) do
  for _, id in ipairs(list) do
    if not seen[id] then
      ids[#ids + 1], seen[id] = id, true
    end
  end
end
local running = read_running(ids)
local leases, ended, verdicts = {}, {}, {}
for id, row in pairs(running) do
  leases[#leases + 1] = numbered(row.seq, id)
end
for i, id in ipairs(ends) do
  local node, measured = running[id], tonumber(measures[i])
  if node then
    running[id], ended[#ended + 1], verdicts[i] = nil, id, "ended"
    release(tenants[node.owner], node.user, node.track, node.charged, measured)
    if measured then
      learn(node.track, measured)
    end
  else
    verdicts[i] = "not_running"
  end
end
call_with("HDEL", RUNNING, ended)
call_with("ZREM", LEASES, leases)
local taken = dispatch(limit, lease_ms)
write_all()
return concat(verdicts, "\n") .. "\n\n" .. taken
