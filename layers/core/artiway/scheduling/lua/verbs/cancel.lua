--[[ cancel -> "cancelled" | "running" | "unknown" per node: nodes that wait leave the queue at once.
  ARGV[3] nodes  lines of ids; one that runs is the worker's to stop, and ends by complete ]]
function verbs.cancel(arguments)
  local verdicts = {}
  for id in gmatch(arguments[3], "[^\n]+") do
    local node = queue.nodes[id]
    if not node then
      verdicts[#verdicts + 1] = "unknown"
    elseif queue.running[node] then
      verdicts[#verdicts + 1] = "running"
    else
      queue.nodes[id] = nil
      refresh(unlink(node), false, false)
      forget_idle(node.user)
      verdicts[#verdicts + 1] = "cancelled"
    end
  end
  return concat(verdicts, "\n")
end
