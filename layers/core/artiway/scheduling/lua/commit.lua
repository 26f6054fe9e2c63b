#!lua flags=allow-oom
--[[ commit -> "committed" | "stale": what was loaded becomes the queue, in one step.
  KEYS     as in includes/keys.lua
  ARGV[1] epoch   ARGV[2] now_ms ]]
--@include keys
if call("GET", LOADING) ~= ARGV[1] then
  return "stale"
end
call("RENAME", LOADING, EPOCH)
return "committed"
