--[[ service -> lines tenant|microseconds: GPU time that each tenant was given in a minute.
  ARGV[3] minute  since the epoch of Unix ]]
function verbs.service(arguments)
  local minute, lines, served = check_number(arguments[3], "minute"), {}, {}
  for id, cost in pairs(queue.service[minute] or {}) do
    served[id] = cost
  end
  for id, tenant in pairs(queue.tenants) do
    if tenant.minute == minute and tenant.served ~= 0 then
      served[id] = (served[id] or 0) + tenant.served
    end
  end
  for id, cost in pairs(served) do
    lines[#lines + 1] = format("%s|%d", id, cost)
  end
  return concat(lines, "\n")
end
