--[[ caps -> lines tenant|user|cap: the users that have a cap of their own. ]]
function verbs.caps()
  local lines = {}
  for id, tenant in pairs(queue.tenants) do
    for name, user in pairs(tenant.users) do
      if user.cap then
        lines[#lines + 1] = format("%s|%s|%d", id, name, user.cap)
      end
    end
  end
  return concat(lines, "\n")
end
