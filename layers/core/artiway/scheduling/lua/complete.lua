--[[ complete -> "ended" | "not_running" per node, a blank line, the lines of dispatch; or "stale": nodes ended, others go.
  ARGV[3] limit      of the dispatch that follows in the same call; 0 for none
  ARGV[4] lease_ms   as in dispatch
  ARGV[5] warm       as in dispatch
  ARGV[6] ends       lines node|measured; empty when nothing was measured
  ARGV[7] confirmed  lines of nodes whose message was sent ]]
--@include pool
--@include arguments
--@include heads
--@include release
--@include choose
local limit, lease_ms = check_number(ARGV[3], "limit"), check_number(ARGV[4], "lease_ms")
check(ARGV[6], "^[^|]+|%d*$", "end")
if is_stale() then
  return "stale"
end
for id in gmatch(ARGV[7], "[^\n]+") do
  lease_drops[#lease_drops + 1] = id
end
local ended = complete(ARGV[6])
local lines = limit > 0 and dispatch(limit, lease_ms, words(ARGV[5])) or ""
write_back()
return record("complete", ended .. "\n\n" .. lines)
