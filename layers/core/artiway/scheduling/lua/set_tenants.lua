#!lua flags=allow-oom
--[[ set_tenants -> "set"; "stale": weights and caps, acting at once on what waits.
  KEYS     as in includes/keys.lua
  ARGV[1] epoch   ARGV[2] now_ms
  ARGV[3] policies  lines tenant|weight|cap|user_cap; an empty cap is no limit
  ARGV[4] lasts     lines tenant|tag, the latest tag that a tenant was served at; only a rebuild knows better than we do ]]
--@include keys
--@include arguments
--@include pool
--@include tenants
--@include heads
--@include slots
--@include policies
local rows, lasts = check_lines(ARGV[3], POLICY, "policy"), check_lines(ARGV[4], "^([^|\n]+)|(%d+)", "last")
if not read_pool() then
  return "stale"
end
local ids = {}
for i, row in ipairs(rows) do
  ids[i] = row[1]
end
read_tenants(ids)
set_tenants(rows)
for _, row in ipairs(lasts) do
  local tenant = tenants[row[1]]
  if tenant then
    tenant.last = tonumber(row[2])
    change(tenant)
  end
end
write_all()
return "set"
