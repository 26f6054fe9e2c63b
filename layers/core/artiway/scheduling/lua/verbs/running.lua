--[[ running -> lines node|tenant|user|type|lane|model|cost|charged|confirm_by: every node that holds a slot. ]]
function verbs.running()
  local lines = {}
  for node, confirm_by in pairs(queue.running) do
    lines[#lines + 1] = format("%s|%s|%s|%s|%d|%d|%s", node.id, node.user.tenant.id, node.user.name, node.track.name, node.cost,
      node.charged, optional(confirm_by))
  end
  return concat(lines, "\n")
end
