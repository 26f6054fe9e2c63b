--[[ service -> lines tenant|microseconds: GPU time that each tenant was given in a minute.
  ARGV[3] minute  since the epoch of Unix ]]
function verbs.service(arguments)
  local lines = {}
  for id, cost in pairs(queue.service[check_number(arguments[3], "minute")] or {}) do
    lines[#lines + 1] = format("%s|%d", id, cost)
  end
  return concat(lines, "\n")
end
