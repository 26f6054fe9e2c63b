#!lua flags=allow-oom
--[[ abandon -> "abandoned" | "stale": a rebuild that failed gives up, so that its keys can be deleted.
  KEYS     as in includes/keys.lua
  ARGV[1] epoch   ARGV[2] now_ms ]]
--@include keys
if call("GET", LOADING) ~= ARGV[1] then
  return "stale"
end
call("DEL", LOADING)
return "abandoned"
