--[[ configure -> "set" | "stale": slots, lanes, model limits. Tags do not depend on them: the next dispatch looks.
  ARGV[3] fields  lines field|value of the pool's hash; an empty value removes the field
Each switch is a field of its own, so that a paused lane stays paused when its parallelism changes. ]]
--@include pool
--@include arguments
for line in string.gmatch(ARGV[3], "[^\n]+") do
  if not (string.match(line, "^[spnhm]:[^|]+|%d*$") or string.match(line, "^c:[^|]+|%d+ %d+$")
      or string.match(line, "^capacity|%d*$") or string.match(line, "^clock|%d+$") or string.match(line, "^log|%d+$")) then
    error({ err = "INVALID field: " .. line })
  end
end
if is_stale() then
  return "stale"
end
for field, value in string.gmatch(ARGV[3], "([^|\n]+)|([^\n]*)") do
  if value == "" then
    call("HDEL", pool_key, field)
  else
    call("HSET", pool_key, field, value)
  end
end
return record("configure", "set")
