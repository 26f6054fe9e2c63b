--[[ heads: keeps the heads of users and tenants in step with their nodes. ]]
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

local function put_head(tenant, track, tag, cost, seq)
  if not tenant.heads[track.index] then
    track.contest.live = track.contest.live + 1
  end
  local head = { tag = tag, seq = seq, cost = cost, tenant = tenant }
  tenant.heads[track.index] = head -- a new one each time: what stands for the old one in the contest no longer counts
  enter(track, head)
end

local function drop_head(tenant, track)
  tenant.heads[track.index] = nil
  track.contest.live = track.contest.live - 1
end

-- A head that leaves undispatched was never charged.
local function withdraw_head(tenant, track)
  tenant.last = tenant.last - charge(tenant.heads[track.index].cost, tenant.weight)
  drop_head(tenant, track)
end

-- A tag is max(clock, last) + cost/weight. A tenant that comes back from its cap, or with a rebuild, goes in at the clock
-- and not a node behind it: the cap was its wait. `last` moves along: who has heads on several tracks queues behind itself.
local function next_tag(tenant, track, line, is_return)
  local clock, due = queue.clock, charge(line.cost, tenant.weight)
  local tag = max(is_return and clock - due or clock, tenant.last) + due
  -- Overpaid cost brings a tag forward, but not before the clock; what is left waits for the next head.
  if tenant.credit > 0 then
    local used = min(tenant.credit, tag - clock)
    tenant.credit = tenant.credit - used
    tag = tag - used
  end
  tenant.last = tag
  return tag - lag_of(track)
end

local function tag_tenant(tenant, track, line, is_return)
  put_head(tenant, track, next_tag(tenant, track, line, is_return), line.cost, line.seq)
end

local function refresh_tenant(tenant, track, is_return, is_continuing)
  if tenant.is_capped then
    return
  end
  local crowd, head = tenant.crowds[track.index], tenant.heads[track.index]
  local first = crowd and crowd[1]
  if not first then
    if head then
      withdraw_head(tenant, track)
    end
  elseif not head then
    if not is_continuing and not next(tenant.heads) then
      tenant.credit, tenant.since = 0, now_ms
    end
    tag_tenant(tenant, track, first, is_return)
  elseif head.seq ~= first.seq then
    local difference = charge(first.cost, tenant.weight) - charge(head.cost, tenant.weight)
    tenant.last = tenant.last + difference
    put_head(tenant, track, head.tag + difference, first.cost, first.seq)
  end
end

local function is_user_capped(user)
  return user.running >= (user.cap or user.tenant.user_cap)
end

-- A user's tag is on the crowd's clock, which never falls behind the tags that it has served.
local function join_crowd(tenant, track, line)
  local crowd, node = tenant.crowds[track.index], line.first
  if not crowd then
    crowd = { clock = 0 }
    tenant.crowds[track.index] = crowd
  end
  local cost = cost_of(track, node.cost)
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
  if crowd and not crowd[1] then -- nobody left who could go: the next one starts a new clock
    tenant.crowds[track.index] = nil
  end
end

-- Brings a user's place in the crowd in line with its nodes and its cap, then the tenant's head with the crowd.
local function refresh(line, is_return, is_continuing)
  local user, track, node = line.user, line.track, line.first
  local tenant = user.tenant
  if not node or is_user_capped(user) then
    leave_crowd(tenant, track, line)
  elseif not line.at or line.seq ~= node.seq then
    join_crowd(tenant, track, line)
  end
  refresh_tenant(tenant, track, is_return, is_continuing)
end

local function refresh_user(user, is_continuing)
  if next(user.lines) then
    for index = 1, #queue.tracks do
      if user.lines[index] then
        refresh(user.lines[index], false, is_continuing)
      end
    end
  end
end

local function user_for(tenant, name)
  local user = tenant.users[name]
  if not user then
    user = { name = name, tenant = tenant, running = 0, lines = {} }
    tenant.users[name] = user
  end
  return user
end

local function forget_idle(user)
  if user.running == 0 and not user.cap and not next(user.lines) then
    user.tenant.users[user.name] = nil
  end
end

-- Puts a node into its line at its place: at the end, or near the front when it comes back.
local function put(node, is_return)
  local user, track = node.user, node.track
  local line = user.lines[track.index]
  local tenant = user.tenant
  track.waiting, tenant.waiting = track.waiting + 1, tenant.waiting + 1
  if not line then
    line = { user = user, track = track, first = node, last = node, tag = 0, seq = 0, cost = 0 }
    user.lines[track.index] = line
  elseif line.last.seq < node.seq then
    node.previous, line.last.next = line.last, node
    line.last = node
    return -- behind others: nobody's head
  else
    local behind = line.first
    while behind.seq < node.seq do
      behind = behind.next
    end
    node.next, node.previous = behind, behind.previous
    if behind.previous then behind.previous.next = node else line.first = node end
    behind.previous = node
  end
  refresh(line, is_return, false)
end

-- Takes a node out of its line, wherever it stands there.
local function unlink(node)
  local user, track = node.user, node.track
  local line = user.lines[track.index]
  if node.previous then node.previous.next = node.next else line.first = node.next or nil end
  if node.next then node.next.previous = node.previous else line.last = node.previous or nil end
  node.next, node.previous = false, false
  user.tenant.waiting, track.waiting = user.tenant.waiting - 1, track.waiting - 1
  if not line.first then
    user.lines[track.index] = nil
  end
  return line
end
