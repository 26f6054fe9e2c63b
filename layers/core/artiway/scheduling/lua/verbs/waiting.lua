--[[ waiting -> a line "tenant|user|track|seq|chunk" to go on from, or "|", then lines seq|node|tenant|user|type|lane|model|cost.
A part at a time, so that nobody waits for a long queue to be read.
  ARGV[3] limit    nodes per call
  ARGV[4] tenants  lines of ids, the one to go on with first
  ARGV[5] from     the line that the last call answered, or "" ]]
local function lines_of(tenant)
  local found = {}
  for _, user in pairs(tenant.users) do
    for index = 1, user.lines > 0 and #queue.tracks or 0 do
      found[#found + 1] = user[USER + index]
    end
  end
  sort(found, function(a_line, b_line)
    local a_name, b_name = a_line.user.name, b_line.user.name
    return a_name < b_name or (a_name == b_name and a_line.track.index < b_line.track.index)
  end)
  return found
end

-- Calls `see` with id, seq, cost and chunk of each that waits on a line after `seq`, until that answers false.
local function see_line(line, seq, chunk, see)
  local node, tail = line.first, line.tail
  while node do
    if node.seq > seq and not see(node.id, node.seq, node.cost, 0) then
      return false
    end
    node = node.next
  end
  for number = tail and max(tail.from, min(chunk, tail.to)) or 1, tail and tail.to or 0 do
    local text = number == tail.from and sub(tail[number], tail.read) or tail[number]
    for id, other, cost in gmatch(text, "\n([^|]+)|(%d+)|(%d+)") do
      if tonumber(other) > seq and not see(id, tonumber(other), tonumber(cost), number) then
        return false
      end
    end
  end
  return true
end

function verbs.waiting(arguments)
  local limit, found = check_number(arguments[3], "limit"), { "|" }
  local owner, name, index, seq, chunk = match(arguments[5], "^([^|]+)|([^|]+)|(%d+)|(%d+)|(%d+)$")
  index, seq, chunk = tonumber(index), tonumber(seq), tonumber(chunk)
  for id in gmatch(arguments[4], "[^\n]+") do
    for _, line in ipairs(queue.tenants[id] and lines_of(queue.tenants[id]) or {}) do
      local user, track = line.user, line.track
      local is_read = owner == id and (user.name < name or (user.name == name and track.index < index))
      local is_begun = owner == id and user.name == name and track.index == index
      local function see(node, at, cost, in_chunk)
        found[#found + 1] = format("%d|%s|%s|%s|%s|%d", at, node, id, user.name, track.name, cost)
        if #found > limit then
          found[1] = format("%s|%s|%d|%d|%d", id, user.name, track.index, at, in_chunk)
          return false
        end
        return true
      end
      if not is_read and not see_line(line, is_begun and seq or 0, is_begun and chunk or 0, see) then
        return concat(found, "\n")
      end
    end
  end
  return concat(found, "\n")
end
