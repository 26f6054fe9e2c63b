--[[ dispatch: takes the smallest tags whose tracks are open, one after the other.
  DECISIONS  list of "at|node|tenant|user|type|lane|model|step|cost|rank|charged|tag|runner_up|runner_up_tag", the newest last

A window is the beginning of heads:<track>, read once: rows from Redis, and `extra` heads that were tagged since then. Its top
is the first of both: tag on the track's clock, turn and tenant. ]]
local limits, running_of

-- A share of a small pool is one slot, not none.
local function lane_limit(lane, pool_slots)
  if switches.paused[lane] then
    return 0
  end
  local limit, share = tonumber(switches.parallelism[lane]) or UNLIMITED, switches.share[lane]
  return share and min(limit, max(1, floor(pool_slots * share / 100))) or limit
end

local function read_limits()
  local pool_slots, total = 0, 0
  for _, count in pairs(switches.slots) do
    pool_slots = pool_slots + count
  end
  if capacity ~= UNLIMITED then
    pool_slots = capacity
  end
  limits, running_of = {}, {}
  for _, track in ipairs(tracks) do
    local of_type, of_lane, of_model = "t" .. track.type, "l" .. track.lane, "m" .. track.model
    track.counts = { of_type, of_lane, of_model }
    limits[of_type] = limits[of_type] or tonumber(switches.slots[track.type]) or 0
    limits[of_lane] = limits[of_lane] or lane_limit(track.lane, pool_slots)
    limits[of_model] = limits[of_model] or tonumber(switches.model[track.model]) or UNLIMITED
    -- Few steps have a limit, so the others are not counted.
    if switches.step[track.step] then
      local of_step = "s" .. track.step
      track.counts[4], limits[of_step] = of_step, tonumber(switches.step[track.step])
    end
    for _, name in ipairs(track.counts) do
      running_of[name] = (running_of[name] or 0) + track.running
    end
    total = total + track.running
  end
  limits.all, running_of.all = capacity, total
end

local function has_room(track)
  local counts = track.counts
  local a, b, c, d = counts[1], counts[2], counts[3], counts[4]
  return running_of[a] < limits[a] and running_of[b] < limits[b] and running_of[c] < limits[c]
    and (not d or running_of[d] < limits[d]) and running_of.all < limits.all
end

-- Counts a node that was taken. Answers whether a limit is full now.
local function count_running(track)
  local counts, is_full = track.counts, false
  for i = 1, #counts do
    local name = counts[i]
    running_of[name] = running_of[name] + 1
    is_full = is_full or running_of[name] >= limits[name]
  end
  running_of.all = running_of.all + 1
  return is_full or running_of.all >= limits.all
end

-- Only a dispatch moves the clock, so tracks open and close when one begins or fills a limit.
local function open_tracks(windows, size)
  local open = {}
  for index, track in ipairs(tracks) do
    local is_open = has_room(track)
    if is_open and track.blocked_at then
      track.lag, track.blocked_at, track.is_changed = lag_of(track), nil, true
    elseif not is_open and not track.blocked_at then
      track.blocked_at, track.is_changed = clock, true
    end
    if is_open then
      windows[index] = windows[index] or { track = track, size = size, at = 1, rows = {}, last = 0, extra = {}, is_cut = true }
      open[#open + 1] = windows[index]
    end
  end
  return open
end

-- Reads the beginning of the heads again, after what this call changed was written.
local function fill(window)
  write_works(false)
  local rows = call("ZRANGE", heads_key(window.track.index), 0, window.size - 1, "WITHSCORES")
  window.rows, window.at, window.extra, window.is_cut = rows, 1, {}, #rows == 2 * window.size
  window.last = tonumber(rows[#rows]) or 0
end

-- A head counts while it is still its tenant's: it may have gone, or its tenant reached its cap.
local function is_live(member, id, index)
  local tenant = tenants[id]
  local work = tenant and tenant.work[index]
  return not work or (work.tag and work.turn == tonumber(sub(member, 1, 13)))
end

-- Finds the window's top. Members begin with their turn in 13 digits, so that of equal tags the smaller one goes first.
local function find_top(window)
  local index, rows, at, extra = window.track.index, window.rows, window.at, window.extra
  local tag, id, member
  while true do
    member = rows[at]
    if member then
      id = sub(member, 15)
      if is_live(member, id, index) then
        tag = tonumber(rows[at + 1])
        break
      end
      at = at + 2
    elseif window.is_cut then
      fill(window)
      rows, at, extra = window.rows, 1, window.extra
      if not rows[1] then
        break
      end
    else
      break
    end
  end
  while extra[1] and not is_live(extra[1].member, extra[1].id, index) do
    table.remove(extra, 1)
  end
  local first = extra[1]
  window.is_extra = first and (not tag or first.tag < tag or (first.tag == tag and first.member < member))
  if window.is_extra then
    tag, id, member = first.tag, first.id, first.member
  end
  window.at, window.tag, window.id, window.member = at, tag, id, member
end

-- The first head of a window that is not of the tenant of its top. Only looks at what was read.
local function other_head(window)
  local index, rows, own = window.track.index, window.rows, window.id
  local tag, id, member
  for at = window.at, #rows, 2 do
    member = rows[at]
    id = sub(member, 15)
    if id ~= own and is_live(member, id, index) then
      tag = tonumber(rows[at + 1])
      break
    end
  end
  for _, head in ipairs(window.extra) do
    if head.id ~= own and is_live(head.member, head.id, index) then
      if not tag or head.tag < tag or (head.tag == tag and head.member < member) then
        tag, id, member = head.tag, head.id, head.member
      end
      break
    end
  end
  return tag, id, member
end

-- The window whose top goes first, with its tag on the pool's clock.
local function choose(open)
  local best, best_tag
  for i = 1, #open do
    local window = open[i]
    if not window.tag or not is_live(window.member, window.id, window.track.index) then
      find_top(window)
    end
    local tag = window.tag and window.tag + window.track.lag
    if tag and (not best or tag < best_tag or (tag == best_tag and window.member < best.member)) then
      best, best_tag = window, tag
    end
  end
  return best, best_tag
end

-- Takes the top off its window. Answers the tag and the tenant of the next head that could have gone instead.
local function runner_up(open, best)
  local chosen, next_tag, next_id, next_member = best.id, nil, nil, nil
  if best.is_extra then
    table.remove(best.extra, 1)
  else
    best.at = best.at + 2
  end
  find_top(best)
  for i = 1, #open do
    local window = open[i]
    local tag, id, member = window.tag, window.id, window.member
    if tag and id == chosen then
      tag, id, member = other_head(window)
    end
    tag = tag and tag + window.track.lag
    if tag and (not next_tag or tag < next_tag or (tag == next_tag and member < next_member)) then
      next_tag, next_id, next_member = tag, id, member
    end
  end
  return next_tag, next_id
end

-- A head that was tagged in this call joins the window, unless it stands behind all that was read.
local function add_to_window(window, work)
  local tag = work.tag
  if tag and not (window.is_cut and tag >= window.last) then
    local extra = window.extra
    local place = #extra + 1
    while place > 1 and extra[place - 1].tag > tag do
      place = place - 1
    end
    table.insert(extra, place, { tag = tag, member = numbered(work.turn, work.tenant.id), id = work.tenant.id })
    if not window.tag or tag < window.tag then
      window.tag = nil
    end
  end
end

-- A node that is the only one of its tenant on the track leaves no key behind. Answers as `take` does.
local function take_alone(work)
  local tenant, track, charged = work.tenant, work.track, work.cost
  local rank, user, id, cost = match(work.alone, "^(%d)|([^|]+)|([^|]+)|(%d+)$")
  if call("DEL", work.users, nodes_key(track.index, tenant.id, user)) ~= 2 then
    damaged()
    return nil
  end
  work.clock = 0
  count_waiting(work, tonumber(cost), -1)
  count_slot(tenant, user, track, 1)
  serve(tenant, charged)
  cap_tenant(tenant)
  local is_capped = is_user_capped(tenant, user)
  if is_capped then
    refresh_user(tenant, user, true)
  end
  return id, cost, user, charged, rank * NODE_RANK + work.seq, is_capped
end

-- Takes the first node of the user whose turn it is. Answers its id, declared cost, user, charge and score, and whether
-- heads of other tracks changed too.
local function take(work, tag)
  local tenant, track, charged = work.tenant, work.track, work.cost
  if work.waiting == 1 and work.alone ~= "" then
    drop_head(work)
    tenant.last, tenant.dearest = max(tenant.last, tag), max(tenant.dearest, charged)
    return take_alone(work)
  end
  local users = call("ZRANGE", work.users, 0, 1, "WITHSCORES")
  local user = users[1] and sub(users[1], 15)
  local key = user and nodes_key(track.index, tenant.id, user)
  local nodes = key and call("ZRANGE", key, 0, 1, "WITHSCORES") or {}
  drop_head(work)
  if not nodes[1] then
    damaged()
    return nil
  end
  local id, cost = match(nodes[1], "^([^|]+)|(%d+)$")
  tenant.last, tenant.dearest = max(tenant.last, tag), max(tenant.dearest, charged)
  work.clock = max(work.clock, users[2] % USER_RANK)
  call("ZREM", key, nodes[1])
  call("ZREM", work.users, users[1])
  count_waiting(work, tonumber(cost), -1)
  count_slot(tenant, user, track, 1)
  serve(tenant, charged)
  cap_tenant(tenant)
  if is_user_capped(tenant, user) then
    refresh_user(tenant, user, true)
    refresh_head(work, false, true)
    return id, cost, user, charged, nodes[2], true
  end
  local first, first_score, next_cost = users[3], tonumber(users[4]), nil
  if nodes[3] then
    -- The next node takes the place of the one that goes; the second user may come before it now.
    next_cost = tonumber(match(nodes[3], "|(%d+)$"))
    local rank, of, user_tag = floor(nodes[4] / NODE_RANK), nodes[4] % NODE_RANK, work.clock + next_cost
    put_user(work, user, rank, user_tag, of)
    local member, score = numbered(of, user), rank * USER_RANK + user_tag
    if first and (first_score < score or (first_score == score and first < member)) then
      next_cost = nil
    else
      first = member
    end
  end
  if not first then
    work.clock = 0
  elseif not tenant.is_capped then
    local price = learned_cost(track) or next_cost or first_cost(work, sub(first, 15))
    tag_head(work, price, tonumber(sub(first, 1, 13)), false, true)
  end
  return id, cost, user, charged, nodes[2], false
end

-- Answers one line per node: id|tenant|user|type|lane|model|step|cost|rank|charged|tag.
local function dispatch(limit, lease_ms)
  if limit == 0 then
    return ""
  end
  local lines, records, leases, gone, decisions, count = {}, {}, {}, {}, {}, 0
  read_limits()
  local windows, confirm_by, at = {}, now_ms + lease_ms, format("%d|", now_ms)
  local open = open_tracks(windows, limit + 1)
  while count < limit do
    local window, tag = choose(open)
    if not window then
      break
    end
    clock = max(clock, tag)
    local tenant, track = tenant_of(window.id), window.track
    local work = work_of(tenant, track)
    local next_tag, next_id = runner_up(open, window)
    local id, cost, user, charged, score, is_refresh = take(work, tag)
    add_to_window(window, work)
    if is_refresh then
      for _, other in pairs(windows) do
        other.rows, other.at, other.extra, other.is_cut, other.tag = {}, 1, {}, true, nil
      end
    end
    if id then
      count = count + 1
      local rank, of = floor(score / NODE_RANK), format("%d", score % NODE_RANK)
      local record = tenant.id .. "|" .. user .. "|" .. track.name .. "|" .. cost .. "|" .. rank .. "|"
        .. format("%d|%d", charged, tag)
      local line = id .. "|" .. record
      lines[count], gone[count] = line, id
      records[2 * count - 1], records[2 * count] = id, record .. "|" .. of
      leases[2 * count - 1], leases[2 * count] = confirm_by, numbered(of, id)
      decisions[count] = next_id and at .. line .. "|" .. next_id .. "|" .. format("%d", next_tag) or at .. line .. "||"
      if count_running(track) then
        open = open_tracks(windows, limit + 1)
      end
    end
  end
  if gone[1] then
    call_with("HDEL", WHERE, gone)
    call_with("HSET", RUNNING, records)
    call_with("ZADD", LEASES, leases)
    call_with("RPUSH", DECISIONS, decisions)
    call("LTRIM", DECISIONS, -DECISIONS_KEPT, -1)
  end
  return concat(lines, "\n")
end
