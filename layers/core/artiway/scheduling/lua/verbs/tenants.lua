--[[ tenants -> lines tenant|weight|cap|user_cap|last|credit|dearest|waiting|running|is_capped|since|heads, with heads
"track tag cost seq" apart by commas.
  ARGV[3] tenants  lines of ids, or "*": all ids, and nothing but the ids ]]
function verbs.tenants(arguments)
  local lines = {}
  if arguments[3] == "*" then
    for id in pairs(queue.tenants) do
      lines[#lines + 1] = id
    end
    return concat(lines, "\n")
  end
  for id in gmatch(arguments[3], "[^\n]+") do
    local tenant = queue.tenants[id]
    if tenant then
      local heads = {}
      for index, crowd in pairs(tenant.crowds) do
        if crowd.tag then
          heads[#heads + 1] = format("%d %d %d %d", index, crowd.tag, crowd.cost, crowd.seq)
        end
      end
      lines[#lines + 1] = format("%s|%d|%s|%s|%d|%d|%d|%d|%d|%d|%d|%s", id, tenant.weight, optional(tenant.cap),
        optional(tenant.user_cap), tenant.last, tenant.credit, tenant.dearest, tenant.waiting, tenant.running,
        tenant.is_capped and 1 or 0, tenant.since, concat(heads, ","))
    end
  end
  return concat(lines, "\n")
end
