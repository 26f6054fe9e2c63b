#!lua flags=allow-oom
--[[ dispatch -> lines node|tenant|user|type|lane|model|step|cost|rank|charged|tag; "stale": take up to `limit` nodes that may run.
  KEYS     as in includes/keys.lua
  ARGV[1] epoch   ARGV[2] now_ms
  ARGV[3] limit
  ARGV[4] lease_ms  a node that is not confirmed by then comes back (reclaim) ]]
--@include keys
--@include arguments
--@include pool
--@include tenants
--@include heads
--@include slots
--@include dispatch
local limit, lease_ms = check_number(ARGV[3], "limit"), check_number(ARGV[4], "lease_ms")
if not read_pool() then
  return "stale"
end
local taken = dispatch(limit, lease_ms)
write_all()
return taken
