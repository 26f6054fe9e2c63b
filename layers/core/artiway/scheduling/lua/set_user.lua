#!lua flags=allow-oom
--[[ set_user -> "set"; "stale"; "unknown_tenant" + id: a user's own concurrency, instead of the tenant's default.
  KEYS     as in includes/keys.lua
  ARGV[1] epoch   ARGV[2] now_ms
  ARGV[3] tenant  ARGV[4] user
  ARGV[5] cap     empty: back to the default ]]
--@include keys
--@include arguments
--@include pool
--@include tenants
--@include heads
local id, user, cap = ARGV[3], ARGV[4], ARGV[5]
if cap ~= "" then
  check_number(cap, "cap")
end
if not read_pool() then
  return "stale"
end
local tenant, name = tenant_of(id), id .. "|" .. user
if not tenant then
  return "unknown_tenant\n" .. id
end
local before, had_user_caps = call("HEXISTS", USER_CAPS, name), has_user_caps(tenant)
if cap == "" then
  call("HDEL", USER_CAPS, name)
else
  call("HSET", USER_CAPS, name, cap)
end
tenant.own_caps = tenant.own_caps - before + (cap == "" and 0 or 1)
change(tenant)
if has_user_caps(tenant) ~= had_user_caps then
  recount_users(tenant)
end
refresh_user(tenant, user, false)
write_all()
return "set"
