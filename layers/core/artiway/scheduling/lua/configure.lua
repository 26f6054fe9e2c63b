#!lua flags=allow-oom
--[[ configure -> "set"; "stale": slots, lanes, limits of models and steps. Tags do not depend on them: the next dispatch reads them.
  KEYS     as in includes/keys.lua
  ARGV[1] epoch   ARGV[2] now_ms
  ARGV[3] fields  lines field|value as in includes/pool.lua; an empty value removes the field
Each switch is a field of its own, so that a paused lane stays paused when its parallelism changes. ]]
--@include keys
--@include arguments
local COUNTED = { slots = true, paused = true, parallelism = true, share = true, model = true, step = true }
local rows, set, gone = check_lines(ARGV[3], "^([^|\n]+)|([%d ]*)", "field"), {}, {}
for _, row in ipairs(rows) do
  local field, value = row[1], row[2]
  local kind = match(field, "^(%l+):.")
  if not ((COUNTED[kind] or field == "capacity") and match(value, "^%d*$") or kind == "cost" and match(value, "^%d+ %d+$")
      or field == "clock" and match(value, "^%d+$")) then
    invalid("field", field .. "|" .. value)
  end
  if value == "" then
    gone[#gone + 1] = field
  else
    set[#set + 1], set[#set + 2] = field, value
  end
end
if not is_in_force() then
  return "stale"
end
call_with("HSET", POOL, set)
call_with("HDEL", POOL, gone)
return "set"
