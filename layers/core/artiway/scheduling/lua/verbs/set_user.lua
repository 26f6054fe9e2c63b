--[[ set_user -> "set" | "unknown_tenant" + id: a user's own concurrency, instead of the tenant's default.
  ARGV[3] tenant   ARGV[4] user   ARGV[5] cap  empty: back to the default ]]
function verbs.set_user(arguments)
  check(arguments[5], "^%d+$", "cap")
  local missing = missing_tenants({ arguments[3] })
  if missing then
    return missing
  end
  local user = user_for(queue.tenants[arguments[3]], arguments[4])
  user.cap = tonumber(arguments[5])
  refresh_user(user, false)
  forget_idle(user)
  return "set"
end
