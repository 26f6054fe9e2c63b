--[[ complete -> "ended" | "not_running" per node, a blank line, the lines of dispatch: nodes ended, others go.
  ARGV[3] limit      of the dispatch that follows in the same call; 0 for none
  ARGV[4] lease_ms   as in dispatch
  ARGV[5] warm       as in dispatch
  ARGV[6] ends       lines node|measured; empty when nothing was measured
  ARGV[7] confirmed  lines of nodes whose message was sent ]]
function verbs.complete(arguments)
  local limit, lease_ms = check_number(arguments[3], "limit"), check_number(arguments[4], "lease_ms")
  local text, ids, measures, count, at = arguments[6], {}, {}, 0, 1
  local length = #text
  while at <= length do
    count = count + 1
    at, ids[count], measures[count] = line_after(text, at, "^([^|\n]+)|(%d*)", "end")
  end
  local nodes, running, verdicts = queue.nodes, queue.running, {}
  for id in gmatch(arguments[7], "[^\n]+") do
    local node = nodes[id]
    if node and running[node] then
      running[node] = UNLIMITED
    end
  end
  for i = 1, count do
    local node = nodes[ids[i]]
    if node and running[node] then
      local measured = tonumber(measures[i])
      nodes[node.id] = nil
      release(node, measured)
      forget_idle(node.user)
      if measured then
        learn(node.track.kind, measured)
      end
      verdicts[i] = "ended"
    else
      verdicts[i] = "not_running"
    end
  end
  return concat(verdicts, "\n") .. "\n\n" .. dispatch(limit, lease_ms, words(arguments[5]))
end
