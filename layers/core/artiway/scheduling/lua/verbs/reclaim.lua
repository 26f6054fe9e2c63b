--[[ reclaim -> lines of ids: nodes that were taken and never confirmed go back to their old place.
  ARGV[3] limit  nodes per call ]]
function verbs.reclaim(arguments)
  local limit, overdue, ids = check_number(arguments[3], "limit"), {}, {}
  for node, confirm_by in pairs(queue.running) do
    if confirm_by <= now_ms then
      overdue[#overdue + 1] = node
    end
  end
  local running = queue.running
  sort(overdue, function(a_node, b_node)
    local a_by, b_by = running[a_node], running[b_node]
    return a_by < b_by or (a_by == b_by and a_node.seq < b_node.seq)
  end)
  for i = 1, min(limit, #overdue) do
    local node = overdue[i]
    release(node, 0)
    put(node, false)
    ids[i] = node.id
  end
  return concat(ids, "\n")
end
