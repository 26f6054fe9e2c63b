--[[ set_user -> "set" | "stale": a user's own concurrency, instead of the tenant's default.
  ARGV[3] tenant   ARGV[4] user   ARGV[5] cap  empty: back to the default ]]
--@include pool
--@include arguments
--@include heads
local id, user, cap = ARGV[3], ARGV[4], ARGV[5]
check(cap, "^%d+$", "cap")
if is_stale() then
  return "stale"
end
if cap == "" then
  call("HDEL", user_caps_key, id .. "|" .. user)
else
  call("HSET", user_caps_key, id .. "|" .. user, cap)
  change("user_caps", "1")
  has_user_caps = true
end
local tenant = tenant_for(id)
if tenant then
  refresh_all(tenant, user, false)
end
write_back()
return record("set_user", "set")
