--[[ explain -> JSON {state, ...}: where a node stands and everything that could hold it. Changes nothing.
  ARGV[3] node ]]
function verbs.explain(arguments)
  local node = queue.nodes[arguments[3]]
  if not node then
    return cjson.encode({ state = "unknown" })
  end
  local user, track = node.user, node.track
  local tenant = user.tenant
  local cap, user_cap = tenant.cap, user.cap or tenant.user_cap
  local is_running = queue.running[node] ~= nil
  local answer = {
    state = is_running and "running" or "waiting",
    track = track.name,
    tenant_running = tenant.running,
    user_running = user.running,
    tenant_cap = cap ~= UNLIMITED and cap or nil,
    user_cap = user_cap ~= UNLIMITED and user_cap or nil,
  }
  if not is_running then
    local before, other = 0, node.previous
    while other do
      before, other = before + 1, other.previous
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
