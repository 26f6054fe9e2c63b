--[[ dispatch -> lines node|tenant|user|type|lane|model|cost|charged|tag, or "stale": take up to `limit` nodes that may run.
  ARGV[3] limit
  ARGV[4] lease_ms  a node that is not confirmed by then comes back (reclaim)
  ARGV[5] warm      lines of models that idle workers have loaded ]]
--@include pool
--@include arguments
--@include heads
--@include choose
local limit, lease_ms = check_number(ARGV[3], "limit"), check_number(ARGV[4], "lease_ms")
if is_stale() then
  return "stale"
end
local lines = dispatch(limit, lease_ms, words(ARGV[5]))
if lines == "" then
  return ""
end
write_back()
return record("dispatch", lines)
