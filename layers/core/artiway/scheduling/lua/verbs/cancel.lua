--[[ cancel -> "cancelled" | "running" | "unknown" per node: nodes that wait leave the queue at once.
  ARGV[3] nodes  lines of ids; one that runs is the worker's to stop, and ends by complete ]]
function verbs.cancel(arguments)
  local ids, verdicts, gone = {}, {}, {}
  for id in gmatch(arguments[3], "[^\n]+") do
    ids[#ids + 1] = id
  end
  local texts = places_of(ids)
  for i, id in ipairs(ids) do
    local node = queue.nodes[id]
    if node and queue.running[node] then
      verdicts[i] = "running"
    elseif node then
      queue.nodes[id], gone[id] = nil, true
      refresh(unlink(node), false, false)
      forget_idle(node.user)
      verdicts[i] = "cancelled"
    elseif texts[i] and not gone[id] then
      local line, chunk = line_at(texts[i])
      gone[id] = true
      cut(line, chunk, id)
      count_waiting(line.user, line.track, -1)
      verdicts[i] = "cancelled"
    else
      verdicts[i] = "unknown"
    end
  end
  return concat(verdicts, "\n")
end
