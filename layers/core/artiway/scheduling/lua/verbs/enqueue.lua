--[[ enqueue -> "queued" | "duplicate" per node, "unknown_tenant" + ids, "too_many_tracks": nodes become ready.
  ARGV[3] policies  lines tenant|weight|cap|user_cap, set before the nodes; an empty cap is no limit
  ARGV[4] nodes     lines node|tenant|user|type|lane|model|cost, in order of arrival
  ARGV[5] is_load   "1" while the queue is rebuilt ]]
function verbs.enqueue(arguments)
  local policies, text = arguments[3], arguments[4]
  check(policies, POLICY, "policy")
  local given = {}
  for id in gmatch(policies, "([^|\n]+)|%d+|%d*|%d*") do
    given[id] = true
  end
  local ids, owners, users, names, costs, count = {}, {}, {}, {}, {}, 0
  local at, length, unknown, new_tracks = 1, #text, {}, 0
  while at <= length do
    local id, owner, user, name, cost
    at, id, owner, user, name, cost = line_after(text, at, NODE, "node")
    count = count + 1
    ids[count], owners[count], users[count], names[count], costs[count] = id, owner, user, name, cost
    if not queue.tenants[owner] and not given[owner] then
      unknown[#unknown + 1] = owner
    end
    if not queue.track_named[name] and not given["|" .. name] then
      given["|" .. name], new_tracks = true, new_tracks + 1
    end
  end
  if unknown[1] then
    return missing_tenants(unknown)
  elseif #queue.tracks + new_tracks > TRACK_LIMIT then
    return "too_many_tracks"
  end

  set_tenants(policies)
  local nodes, tenants, seq, is_load, verdicts = queue.nodes, queue.tenants, queue.seq, arguments[5] == "1", {}
  for i = 1, count do
    local id = ids[i]
    if nodes[id] then
      verdicts[i] = "duplicate"
    else
      seq = seq + 1
      local node = {
        id = id, user = user_for(tenants[owners[i]], users[i]), track = track_for(names[i]), cost = tonumber(costs[i]), seq = seq,
        charged = 0, next = false, previous = false,
      }
      nodes[id] = node
      put(node, is_load)
      verdicts[i] = "queued"
    end
  end
  queue.seq = seq
  return concat(verdicts, "\n")
end
