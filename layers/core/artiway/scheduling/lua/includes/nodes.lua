--[[ nodes: reads what a batch of nodes needs, and refuses it before anything is written.
  WHERE  hash: waiting node -> "track|tenant|user|cost|score" ]]
local PLACE = "^(%d+)|([^|]+)|([^|]+)|(%d+)|(%d+)$"

local function place_of(track, owner, user, cost, rank, of)
  return track.index .. "|" .. owner .. "|" .. user .. "|" .. cost .. "|" .. format("%d", rank * NODE_RANK + of)
end

-- `rows` begin with node, tenant, user, track. Answers why the batch is refused, or nil. `policies` come with it.
local function read_for(rows, policies)
  local owners, names, new_tracks = {}, {}, 0
  for i, row in ipairs(rows) do
    owners[i] = row[2]
    if not track_named[row[4]] and not names[row[4]] then
      names[row[4]], new_tracks = true, new_tracks + 1
    end
  end
  local given, missing = {}, {}
  for _, row in ipairs(policies) do
    owners[#owners + 1], given[row[1]] = row[1], true
  end
  for _, id in ipairs(read_tenants(owners)) do
    if not given[id] then
      missing[#missing + 1] = id
    end
  end
  if missing[1] then
    return "unknown_tenant\n" .. concat(missing, "\n")
  elseif #tracks + new_tracks > TRACK_LIMIT then
    return "too_many_tracks"
  end
end

-- The ids that wait or run already.
local function known_nodes(rows)
  local ids, known = {}, {}
  for i, row in ipairs(rows) do
    ids[i] = row[1]
  end
  local waiting, running = read_with("HMGET", WHERE, ids), read_with("HMGET", RUNNING, ids)
  for i, id in ipairs(ids) do
    known[id] = waiting[i] or running[i]
  end
  return known
end
