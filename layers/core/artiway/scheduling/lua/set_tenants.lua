--[[ set_tenants -> "set" | "stale": weights and caps, acting at once on what waits.
  ARGV[3] policies  lines tenant|weight|cap|user_cap; an empty cap is no limit
  ARGV[4] lasts     lines tenant|tag, the latest tag that a tenant was served at; only a rebuild knows better than we do ]]
--@include pool
--@include arguments
--@include heads
--@include policy
check(ARGV[3], POLICY, "policy")
check(ARGV[3], WEIGHT, "weight")
check(ARGV[4], "^[^|]+|%d+$", "last")
if is_stale() then
  return "stale"
end
set_tenants(ARGV[3])
for id, last in gmatch(ARGV[4], "([^|\n]+)|(%d+)") do
  local tenant = tenant_for(id)
  if tenant then
    tenant.last, tenant.is_changed = tonumber(last), true
  end
end
write_back()
return record("set_tenants", "set")
