--[[ confirm -> "confirmed": the messages of these nodes were sent, so reclaim leaves them alone.
  ARGV[3] nodes  lines of ids ]]
function verbs.confirm(arguments)
  for id in gmatch(arguments[3], "[^\n]+") do
    local node = queue.nodes[id]
    if node and queue.running[node] then
      queue.running[node] = UNLIMITED
    end
  end
  return "confirmed"
end
