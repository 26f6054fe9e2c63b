--[[ explain -> JSON {state, ...}: where a node stands and everything that could hold it. Changes nothing.
  ARGV[3] node ]]
function verbs.explain(arguments)
  local id = arguments[3]
  local node, place = queue.nodes[id], places_of({ id })[1]
  if not node and not place then
    return cjson.encode({ state = "unknown" })
  end
  local user, track, line, chunk
  if node then
    user, track = node.user, node.track
  else
    line, chunk = line_at(place)
    user, track = line.user, line.track
  end
  local tenant = user.tenant
  local cap, user_cap = tenant.cap, user.cap or tenant.user_cap
  local is_running = node and queue.running[node] ~= nil
  local answer = {
    state = is_running and "running" or "waiting",
    track = track.name,
    tenant_running = tenant.running,
    user_running = user.running,
    tenant_cap = cap ~= UNLIMITED and cap or nil,
    user_cap = user_cap ~= UNLIMITED and user_cap or nil,
  }
  if not is_running then
    local before, other_node
    if node then
      before, other_node = 0, node.previous
    else
      before, other_node = count_before(line, chunk, id), line.last
    end
    while other_node do
      before, other_node = before + 1, other_node.previous
    end
    answer.before_of_user = before
    local crowd = tenant.crowds[track.index]
    if crowd and crowd.tag then
      answer.tag = int(crowd.tag + lag_of(track))
      answer.tenants_before = #crowds_before(track.contest, crowd.tag, crowd.seq, UNLIMITED)
    end
  end
  return cjson.encode(answer)
end
