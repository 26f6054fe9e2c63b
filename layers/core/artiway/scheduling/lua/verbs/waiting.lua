--[[ waiting -> a line "tenant|user|track|seq|node" to go on from, or "|", then lines seq|node|tenant|user|type|lane|model|cost.
A part at a time, so that nobody waits for a long queue to be read.
  ARGV[3] limit    nodes per call
  ARGV[4] tenants  lines of ids, the one to go on with first
  ARGV[5] from     the line that the last call answered, or "" ]]
local function lines_of(tenant)
  local found = {}
  for _, user in pairs(tenant.users) do
    for index = 1, user.lines > 0 and #queue.tracks or 0 do
      found[#found + 1] = user[index]
    end
  end
  sort(found, function(a, b)
    return a.user.name < b.user.name or (a.user.name == b.user.name and a.track.index < b.track.index)
  end)
  return found
end

-- The node where a line is taken up again: the one behind the last that was read, or behind its place if it has gone.
local function resume(line, seq, id)
  local node = queue.nodes[id]
  if node and not queue.running[node] and node.user == line.user and node.track == line.track then
    return node.next
  end
  node = line.first
  while node and node.seq <= seq do
    node = node.next
  end
  return node
end

function verbs.waiting(arguments)
  local limit, found = check_number(arguments[3], "limit"), { "|" }
  local owner, name, index, seq, last = match(arguments[5], "^([^|]+)|([^|]+)|(%d+)|(%d+)|([^|]+)$")
  index, seq = tonumber(index), tonumber(seq)
  for id in gmatch(arguments[4], "[^\n]+") do
    for _, line in ipairs(queue.tenants[id] and lines_of(queue.tenants[id]) or {}) do
      local node, user, track = line.first, line.user, line.track
      if owner == id and (user.name < name or (user.name == name and track.index < index)) then
        node = nil
      elseif owner == id and user.name == name and track.index == index then
        node = resume(line, seq, last)
      end
      while node do
        found[#found + 1] = format("%d|%s|%s|%s|%s|%d", node.seq, node.id, id, user.name, track.name, node.cost)
        if #found > limit then
          found[1] = format("%s|%s|%d|%d|%s", id, user.name, track.index, node.seq, node.id)
          return concat(found, "\n")
        end
        node = node.next
      end
    end
  end
  return concat(found, "\n")
end
