#!lua
--[[ adopt -> "adopted" | "duplicate" per node; "stale"; "unknown_tenant" + ids; "too_many_tracks": running nodes take
their slots. One that is known, waiting or running, stays as it is.
  KEYS     as in includes/keys.lua
  ARGV[1] epoch   ARGV[2] now_ms
  ARGV[3] nodes   lines node|tenant|user|type|lane|model|step|cost|rank|charged|lease_ms; an empty lease is a confirmed node ]]
--@include keys
--@include arguments
--@include pool
--@include tenants
--@include heads
--@include slots
--@include nodes
local rows = check_lines(ARGV[3], NODE .. "|(%d+)|(%d*)", "node")
if not read_pool() then
  return "stale"
end
local refusal = read_for(rows, {})
if refusal then
  return refusal
end
local is_known, verdicts, records, leases = known_nodes(rows), {}, {}, {}
for i, row in ipairs(rows) do
  local id, owner, user, name, cost, rank, charged, lease_ms = unpack(row)
  if is_known[id] then
    verdicts[i] = "duplicate"
  else
    verdicts[i], is_known[id], seq = "adopted", true, seq + 1
    local tenant, track = tenants[owner], track_for(name)
    count_slot(tenant, user, track, 1)
    records[#records + 1] = id
    records[#records + 1] = format("%s|%s|%s|%s|%s|%s|0|%d", owner, user, name, cost, rank, charged, seq)
    if lease_ms ~= "" then
      leases[#leases + 1], leases[#leases + 2] = lease_ms, numbered(seq, id)
    end
    cap_tenant(tenant)
    if is_user_capped(tenant, user) then
      refresh_user(tenant, user, true)
    end
  end
end
call_with("HSET", RUNNING, records)
call_with("ZADD", LEASES, leases)
write_all()
return concat(verdicts, "\n")
