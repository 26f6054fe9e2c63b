--[[ confirm -> "confirmed" | "stale": the messages of these nodes were sent, so reclaim leaves them alone.
  ARGV[3] nodes  lines of ids ]]
--@include pool
if is_stale() then
  return "stale"
end
for id in gmatch(ARGV[3], "[^\n]+") do
  call("ZREM", leases_key, id)
end
return record("confirm", "confirmed")
