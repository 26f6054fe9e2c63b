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
  sort(overdue, function(a, b)
    return running[a] < running[b] or (running[a] == running[b] and a.seq < b.seq)
  end)
  for i = 1, min(limit, #overdue) do
    release(overdue[i], 0)
    put(overdue[i], false)
    ids[i] = overdue[i].id
  end
  return concat(ids, "\n")
end
