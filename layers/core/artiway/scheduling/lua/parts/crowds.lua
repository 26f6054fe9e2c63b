--[[ crowds: keeps the places of users among their tenant, and of tenants in the contests, in step with what waits. ]]
local function charge(cost, weight)
  return ceil(cost / weight)
end

local function cost_of(track, declared)
  local known = queue.costs[track.kind]
  if known and known.samples >= SAMPLES_BEFORE_AVERAGE then
    return max(1, known.average)
  end
  return declared
end

local function contend(crowd, tag, cost, seq)
  if not crowd.tag then
    crowd.tenant.contending, crowd.track.contest.live = crowd.tenant.contending + 1, crowd.track.contest.live + 1
  end
  crowd.tag, crowd.cost, crowd.seq = tag, cost, seq
  enter(crowd.track, crowd)
end

local function step_back(crowd)
  crowd.tag = false
  crowd.tenant.contending, crowd.track.contest.live = crowd.tenant.contending - 1, crowd.track.contest.live - 1
end

-- Who leaves undispatched was never charged.
local function withdraw(crowd)
  crowd.tenant.last = crowd.tenant.last - charge(crowd.cost, crowd.tenant.weight)
  step_back(crowd)
end

-- A tag is max(clock, last) + cost/weight. A tenant that comes back from its cap, or with a rebuild, goes in at the clock
-- and not a node behind it: the cap was its wait. `last` moves along: who contends on several tracks queues behind itself.
local function next_tag(tenant, track, cost, is_return)
  local clock, due = queue.clock, charge(cost, tenant.weight)
  local tag = max(is_return and clock - due or clock, tenant.last) + due
  -- Overpaid cost brings a tag forward, but not before the clock; what is left waits for the next.
  if tenant.credit > 0 then
    local used = min(tenant.credit, tag - clock)
    tenant.credit = tenant.credit - used
    tag = tag - used
  end
  tenant.last = tag
  return tag - lag_of(track)
end

local function refresh_crowd(tenant, track, is_return, is_continuing)
  local crowd = tenant.crowds[track.index]
  if not crowd or tenant.is_capped then
    return
  end
  local line = crowd[CROWD + 1]
  if not crowd.tag then
    if not is_continuing and tenant.contending == 0 then
      tenant.credit, tenant.since = 0, now_ms
    end
    contend(crowd, next_tag(tenant, track, line.cost, is_return), line.cost, line.seq)
  elseif crowd.seq ~= line.seq then
    local difference = charge(line.cost, tenant.weight) - charge(crowd.cost, tenant.weight)
    tenant.last = tenant.last + difference
    contend(crowd, crowd.tag + difference, line.cost, line.seq)
  end
end

local function is_user_capped(user)
  return user.running >= (user.cap or user.tenant.user_cap)
end

-- A user's tag is on the crowd's clock, which never falls behind the tags that it has served.
local function join_crowd(tenant, track, line)
  local crowd, node = tenant.crowds[track.index], line.first
  local cost = cost_of(track, node.cost)
  if not crowd then
    line.tag, line.cost, line.seq, line.at = cost, cost, node.seq, 1
    tenant.crowds[track.index] = { tenant, track, false, 0, 0, 0, line }
    return
  end
  local start = line.at and line.tag - line.cost or crowd.clock
  line.tag, line.cost, line.seq = max(crowd.clock, start + cost), cost, node.seq
  if line.at then
    heap_moved(crowd, line)
  else
    heap_put(crowd, line)
  end
end

local function leave_crowd(tenant, track, line)
  local crowd = tenant.crowds[track.index]
  if line.at then
    heap_drop(crowd, line)
  end
  if crowd and not crowd[CROWD + 1] then -- nobody left who could go: the next one starts a new clock
    if crowd.tag then
      withdraw(crowd)
    end
    tenant.crowds[track.index] = nil
  end
end

-- Brings a user's place in the crowd in line with its nodes and its cap, then the crowd's place in the contest.
local function refresh(line, is_return, is_continuing)
  local user, track, node = line.user, line.track, line.first
  local tenant = user.tenant
  if not node or is_user_capped(user) then
    leave_crowd(tenant, track, line)
  elseif not line.at or line.seq ~= node.seq then
    join_crowd(tenant, track, line)
  end
  refresh_crowd(tenant, track, is_return, is_continuing)
end

local function refresh_user(user, is_continuing)
  if user.lines > 0 then
    for index = 1, #queue.tracks do
      if user[USER + index] then
        refresh(user[USER + index], false, is_continuing)
      end
    end
  end
end

local function user_for(tenant, name)
  local user = tenant.users[name]
  if not user then
    user = { name, tenant, 0, 0 }
    tenant.users[name] = user
  end
  return user
end

local function forget_idle(user)
  if user.running == 0 and user.lines == 0 and not user.cap then
    user.tenant.users[user.name] = nil
  end
end

local function count_waiting(user, track, step)
  user.tenant.waiting, track.waiting = user.tenant.waiting + step, track.waiting + step
end

local function link_last(line, node)
  node.previous, line.last.next = line.last, node
  line.last, queue.loaded = node, queue.loaded + 1
end

-- One more of the tail joins the nodes of its line. Answers whether there was one.
local function load_next(line)
  local node = read_tail(line)
  if node then
    link_last(line, node)
  end
  return node
end

-- Puts a node into its line at its place: at the end, or near the front when it comes back.
local function put(node, is_return)
  local user, track = node.user, node.track
  local line = user[USER + track.index]
  count_waiting(user, track, 1)
  while line and line.last.seq < node.seq and load_next(line) do end
  if not line then
    line = { user, track, node, node, 0, 0, 0, nil }
    user[USER + track.index], user.lines, queue.loaded = line, user.lines + 1, queue.loaded + 1
  elseif line.last.seq < node.seq then
    link_last(line, node)
    return -- behind others: nothing changes for anybody
  else
    local next_node = line.first
    while next_node.seq < node.seq do
      next_node = next_node.next
    end
    node.next, node.previous = next_node, next_node.previous
    if node.previous then node.previous.next = node else line.first = node end
    next_node.previous, queue.loaded = node, queue.loaded + 1
  end
  refresh(line, is_return, false)
end

-- A node becomes ready: in a long backlog as text, unless it is the first of its line.
local function arrive(id, user, track, cost, seq, is_return)
  local line = user[USER + track.index]
  if line and (line.tail or queue.loaded >= queue.table_limit) then
    count_waiting(user, track, 1)
    append(line, id, seq, cost)
  else
    put(new_node(id, user, track, cost, seq), is_return)
  end
end

-- Takes a node out of its line, wherever it stands there.
local function unlink(node)
  local user, track = node.user, node.track
  local line = user[USER + track.index]
  if node.previous then node.previous.next = node.next else line.first = node.next or nil end
  if node.next then node.next.previous = node.previous else line.last = node.previous or nil end
  node.next, node.previous, queue.loaded = false, false, queue.loaded - 1
  count_waiting(user, track, -1)
  if not line.first then
    local next_node = read_tail(line)
    if next_node then
      line.first, line.last, queue.loaded = next_node, next_node, queue.loaded + 1
    else
      user[USER + track.index], user.lines = nil, user.lines - 1
    end
  end
  return line
end
