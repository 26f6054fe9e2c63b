#!lua flags=allow-oom
--[[ begin -> "begun" | "replaced" | "stale" | "newer_layout": an empty queue, to be filled and then committed or abandoned.
"replaced": another rebuild was under way or died, and its keys can be deleted.
  KEYS     as in includes/keys.lua, those of the new epoch
  ARGV[1] epoch   "<layout>-<random>"   ARGV[2] now_ms
  ARGV[3] seen    the epoch that the caller found lost or too old; another one in force means that others were faster
An older release must not take the queue back from a newer one, whose layout it cannot read. ]]
--@include keys
local in_force, loading, layout = call("GET", EPOCH), call("GET", LOADING), tonumber(match(ARGV[1], "^(%d+)-"))
for _, epoch in ipairs({ in_force or "", loading or "" }) do
  if (tonumber(match(epoch, "^(%d+)-")) or 0) > layout then
    return "newer_layout"
  end
end
if in_force and ARGV[3] ~= "" and in_force ~= ARGV[3] then
  return "stale"
end
call("SET", LOADING, ARGV[1])
call("HSET", POOL, "clock", 0, "seq", 0, "turn", 0)
return loading and "replaced" or "begun"
