--[[ configure -> "set": slots, lanes, model limits. Tags do not depend on them: the next dispatch looks.
  ARGV[3] fields  lines field|value; an empty value removes the field
Each switch is a field of its own, so that a paused lane stays paused when its parallelism changes. ]]
local TABLES = { s = "slots", p = "paused", n = "parallelism", h = "share", m = "models" }

function verbs.configure(arguments)
  for line in gmatch(arguments[3], "[^\n]+") do
    if not (match(line, "^[spnhm]:[^|]+|%d*$") or match(line, "^c:[^|]+|%d+ %d+$") or match(line, "^capacity|%d*$")
        or match(line, "^clock|%d+$") or match(line, "^log|%d+$") or match(line, "^tables|%d+$")) then
      invalid("field", line)
    end
  end
  for field, value in gmatch(arguments[3], "([^|\n]+)|([^\n]*)") do
    local kind, name = match(field, "^(%a):(.+)$")
    if field == "capacity" then
      queue.capacity = tonumber(value) or UNLIMITED
    elseif field == "clock" then
      queue.clock = tonumber(value)
    elseif field == "log" then
      queue.log_length = tonumber(value)
    elseif field == "tables" then
      queue.table_limit = tonumber(value)
    elseif kind == "c" then
      local samples, average = match(value, "^(%d+) (%d+)$")
      queue.costs[name] = { samples = tonumber(samples), average = tonumber(average) }
    else
      queue[TABLES[kind]][name] = tonumber(value)
    end
  end
  queue.are_limits_known = false
  return "set"
end
