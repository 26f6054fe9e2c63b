#!lua
--[[ enqueue -> "queued" | "duplicate" per node, a blank line, the lines of dispatch; "stale"; "unknown_tenant" + ids;
"too_many_tracks": nodes become ready, and those whose turn it is are taken. Refused while Redis is over its maxmemory.
  KEYS     as in includes/keys.lua
  ARGV[1] epoch   ARGV[2] now_ms
  ARGV[3] policies  lines tenant|weight|cap|user_cap, set before the nodes; an empty cap is no limit
  ARGV[4] nodes     lines node|tenant|user|type|lane|model|step|cost|rank, in order of arrival; rank 0 is HIGH, 2 is LOW
  ARGV[5] is_load   "1" while the queue is rebuilt
  ARGV[6] limit     of the dispatch that follows in the same call; 0 for none
  ARGV[7] lease_ms  as in dispatch ]]
--@include keys
--@include arguments
--@include pool
--@include tenants
--@include heads
--@include slots
--@include policies
--@include nodes
--@include dispatch
local policies, rows = check_lines(ARGV[3], POLICY, "policy"), check_lines(ARGV[4], NODE, "node")
local is_load, limit, lease_ms = ARGV[5] == "1", check_number(ARGV[6], "limit"), check_number(ARGV[7], "lease_ms")
if not read_pool() then
  return "stale"
end
local refusal = read_for(rows, policies)
if refusal then
  return refusal
end
set_tenants(policies)
local is_known, verdicts, places, wanted = known_nodes(rows), {}, {}, {}
for _, row in ipairs(rows) do
  local track = track_for(row[4])
  wanted[track] = wanted[track] or {}
  table.insert(wanted[track], tenants[row[2]])
end
read_works(wanted)
for i, row in ipairs(rows) do
  local id, owner, user, name, cost, rank = unpack(row)
  if is_known[id] then
    verdicts[i] = "duplicate"
  else
    verdicts[i], is_known[id], seq = "queued", true, seq + 1
    local track = track_named[name]
    put(tenants[owner].work[track.index], user, id, cost, rank, seq, is_load)
    places[#places + 1] = id
    places[#places + 1] = place_of(track, owner, user, cost, rank, seq)
  end
end
call_with("HSET", WHERE, places)
local taken = dispatch(limit, lease_ms)
write_all()
return concat(verdicts, "\n") .. "\n\n" .. taken
