--[[ tails: where a long backlog waits. Lua's collector stops everybody while it walks through a large table, so once
`table_limit` nodes wait as tables, those that come behind others of their line wait as text: records "\n" .. id|seq|cost, some to
a chunk. A hash in Redis says in which (places). Text becomes a node when its turn nears. ]]
local CHUNK = 1024 -- characters; whoever comes, or leaves from the middle, costs a copy of one chunk
local ARGUMENTS = 1000 -- of one command; Lua's stack bears some thousands

local function new_node(id, user, track, cost, seq)
  local node = { id, user, track, cost, seq, 0, false, false }
  queue.nodes[id] = node
  return node
end

-- Of each id its place, or false: it is not text.
local function places_of(ids)
  local found = {}
  for at = 1, queue.texts > 0 and #ids or 0, ARGUMENTS do
    for i, place in ipairs(call("HMGET", places, unpack(ids, at, min(at + ARGUMENTS - 1, #ids)))) do
      found[at + i - 1] = place
    end
  end
  return found
end

-- Every verb ends with this: the hash follows what became text, and what no longer is.
local function keep_places()
  for at = 1, #placed, ARGUMENTS do
    call("HSET", places, unpack(placed, at, min(at + ARGUMENTS - 1, #placed)))
  end
  for at = 1, #unplaced, ARGUMENTS do
    call("HDEL", places, unpack(unplaced, at, min(at + ARGUMENTS - 1, #unplaced)))
  end
  queue.texts = queue.texts + #placed / 2 - #unplaced
end

-- The line and the chunk that a place names.
local function line_at(place)
  local id, name, index, chunk = match(place, "^([^|]+)|([^|]+)|(%d+)|(%d+)$")
  local tenant = queue.tenants[id]
  local user = tenant.users[name]
  return user[USER + tonumber(index)], tonumber(chunk)
end

local function append(line, id, seq, cost)
  local user, track, tail = line.user, line.track, line.tail
  if not tail then
    tail = { from = 1, to = 1, read = 1, "" }
    line.tail = tail
  end
  if #tail[tail.to] >= CHUNK then
    tail.to = tail.to + 1
    tail[tail.to] = ""
  end
  tail[tail.to] = format("%s\n%s|%d|%d", tail[tail.to], id, seq, cost)
  placed[#placed + 1], placed[#placed + 2] = id, format("%s|%s|%d|%d", user.tenant.id, user.name, track.index, tail.to)
end

-- Goes on to the next chunk when one is read, or was emptied; the last one takes the tail along.
local function skip_read(line)
  local tail = line.tail
  while tail.read > #tail[tail.from] do
    if tail.from == tail.to then
      line.tail = nil
      return
    end
    tail[tail.from] = nil
    tail.from, tail.read = tail.from + 1, 1
  end
end

-- The first of a tail becomes a node.
local function read_tail(line)
  local tail = line.tail
  if not tail then
    return nil
  end
  local _, to, id, seq, cost = find(tail[tail.from], "^\n([^|]+)|(%d+)|(%d+)", tail.read)
  tail.read, unplaced[#unplaced + 1] = to + 1, id
  skip_read(line)
  return new_node(id, line.user, line.track, tonumber(cost), tonumber(seq))
end

-- Where the record of a node begins in its chunk. What was read before may carry the same id.
local function record_at(tail, chunk, id)
  return find(tail[chunk], "\n" .. id .. "|", chunk == tail.from and tail.read or 1, true)
end

local function cut(line, chunk, id)
  local tail = line.tail
  local text, from = tail[chunk], record_at(tail, chunk, id)
  tail[chunk] = sub(text, 1, from - 1) .. sub(text, find(text, "\n", from + 1, true) or #text + 1)
  unplaced[#unplaced + 1] = id
  skip_read(line)
end

-- How many records of a tail come before the one of a node.
local function count_before(line, chunk, id)
  local tail, count = line.tail, 0
  for number = tail.from, chunk do
    local text, to = tail[number], number == chunk and record_at(tail, chunk, id) or UNLIMITED
    local at = find(text, "\n", number == tail.from and tail.read or 1, true)
    while at and at < to do
      count, at = count + 1, find(text, "\n", at + 1, true)
    end
  end
  return count
end
