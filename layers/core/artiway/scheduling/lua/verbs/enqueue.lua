--[[ enqueue -> "queued" | "duplicate" per node, a blank line, the lines of dispatch; "unknown_tenant" + ids;
"too_many_tracks": nodes become ready, and whoever may runs.
  ARGV[3] policies  lines tenant|weight|cap|user_cap, set before the nodes; an empty cap is no limit
  ARGV[4] nodes     lines node|tenant|user|type|lane|model|cost, in order of arrival
  ARGV[5] is_load   "1" while the queue is rebuilt
  ARGV[6] limit     of the dispatch that follows in the same call; 0 for none
  ARGV[7] lease_ms  as in dispatch
  ARGV[8] warm      as in dispatch ]]
function verbs.enqueue(arguments)
  local policies, text = arguments[3], arguments[4]
  local limit, lease_ms = check_number(arguments[6], "limit"), check_number(arguments[7], "lease_ms")
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
  local nodes, tenants, texts, seq, is_load = queue.nodes, queue.tenants, places_of(ids), queue.seq, arguments[5] == "1"
  local verdicts, seen = {}, {}
  for i = 1, count do
    local id = ids[i]
    if nodes[id] or texts[i] or seen[id] then
      verdicts[i] = "duplicate"
    else
      seq, seen[id], verdicts[i] = seq + 1, true, "queued"
      arrive(id, user_for(tenants[owners[i]], users[i]), track_for(names[i]), tonumber(costs[i]), seq, is_load)
    end
  end
  queue.seq = seq
  return concat(verdicts, "\n") .. "\n\n" .. dispatch(limit, lease_ms, words(arguments[8]))
end
