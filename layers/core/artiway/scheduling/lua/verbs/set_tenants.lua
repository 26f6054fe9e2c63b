--[[ set_tenants -> "set": weights and caps, acting at once on what waits.
  ARGV[3] policies  lines tenant|weight|cap|user_cap; an empty cap is no limit
  ARGV[4] lasts     lines tenant|tag, the latest tag that a tenant was served at; only a rebuild knows better than we do ]]
function verbs.set_tenants(arguments)
  check(arguments[3], POLICY, "policy")
  check(arguments[4], "^[^|]+|%d+$", "last")
  set_tenants(arguments[3])
  for id, last in gmatch(arguments[4], "([^|\n]+)|(%d+)") do
    local tenant = queue.tenants[id]
    if tenant then
      tenant.last = tonumber(last)
    end
  end
  return "set"
end
