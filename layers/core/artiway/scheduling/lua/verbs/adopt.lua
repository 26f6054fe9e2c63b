--[[ adopt -> "adopted" | "duplicate" per node, "unknown_tenant" + ids, "too_many_tracks": running nodes take their slots.
  ARGV[3] nodes  lines node|tenant|user|type|lane|model|cost|charged|lease_ms; an empty lease is a confirmed node ]]
function verbs.adopt(arguments)
  local text, rows, ids, owners, at = arguments[3], {}, {}, {}, 1
  while at <= #text do
    local row = {}
    at, row[1], row[2], row[3], row[4], row[5], row[6], row[7] = line_after(text, at, NODE .. "|(%d+)|(%d*)", "node")
    rows[#rows + 1], ids[#ids + 1], owners[#owners + 1] = row, row[1], row[2]
  end
  local missing = missing_tenants(owners)
  if missing then
    return missing
  end
  local verdicts, texts = {}, places_of(ids)
  for i, row in ipairs(rows) do
    local id, owner, name, track, cost, charged, lease_ms = unpack(row)
    if queue.nodes[id] or texts[i] then
      verdicts[i] = "duplicate"
    else
      queue.seq = queue.seq + 1
      local user = user_for(queue.tenants[owner], name)
      local node = new_node(id, user, track_for(track), tonumber(cost), queue.seq)
      hold_slot(node, tonumber(charged), tonumber(lease_ms) or UNLIMITED)
      cap_tenant(user.tenant)
      if is_user_capped(user) then
        refresh_user(user, true)
      end
      verdicts[i] = "adopted"
    end
  end
  return concat(verdicts, "\n")
end
