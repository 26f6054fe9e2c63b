--[[ dispatch: takes the smallest tags whose tracks are open, one after the other, each by one look at each open track.
  DECISIONS  list of "at|node|tenant|user|track|charged|tag|runner_up|runner_up_tag", the newest last

A window is the beginning of heads:<track>, read once: rows from Redis, and `extra` heads that were tagged since then. ]]
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
    for _, name in ipairs(track.counts) do
      running_of[name] = (running_of[name] or 0) + track.running
    end
    total = total + track.running
  end
  limits.all, running_of.all = capacity, total
end

local function has_room(track)
  local counts = track.counts
  local a, b, c = counts[1], counts[2], counts[3]
  return running_of[a] < limits[a] and running_of[b] < limits[b] and running_of[c] < limits[c]
    and running_of.all < limits.all
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

-- A row counts while it is still the head of its tenant: it may have gone, or its tenant reached its cap.
local function is_live(id, number, index)
  local tenant = tenants[id]
  local work = tenant and tenant.work[index]
  return not work or (work.tag and work.turn == number)
end

-- The first head of a window whose tenant is not `other_than`: tag on the pool's clock, turn, tenant, place.
local function first_head(window, other_than)
  local index, lag, rows, extra = window.track.index, window.track.lag, window.rows, window.extra
  local at = window.at
  while true do
    local member = rows[at]
    if not member then
      if not window.is_cut then
        break
      end
      fill(window)
      rows, extra, at = window.rows, window.extra, 1
      if not rows[1] then
        return nil
      end
    else
      local number, id = tonumber(sub(member, 1, 13)), sub(member, 15)
      if not is_live(id, number, index) then
        if at == window.at then
          window.at = at + 2
        end
      elseif id ~= other_than then
        break
      end
      at = at + 2
    end
  end
  local best, member = nil, rows[at]
  for place = 1, #extra do
    local head = extra[place]
    if head.id ~= other_than and is_live(head.id, head.turn, index) then
      best = head
      break
    end
  end
  if member then
    local tag, number = tonumber(rows[at + 1]), tonumber(sub(member, 1, 13))
    if not best or tag < best.tag or (tag == best.tag and number < best.turn) then
      return tag + lag, number, sub(member, 15)
    end
  end
  if best then
    return best.tag + lag, best.turn, best.id
  end
end

-- A head that was tagged in this call joins the window, unless it stands behind all that was read.
local function add_to_window(window, work)
  if work.tag and not (window.is_cut and work.tag >= window.last) then
    local extra, tag, place = window.extra, work.tag, #window.extra + 1
    while place > 1 and extra[place - 1].tag > tag do
      place = place - 1
    end
    table.insert(extra, place, { tag = tag, turn = work.turn, id = work.tenant.id })
  end
end

-- Takes the first node of the user whose turn it is. Answers its id, declared cost, user, charge and score, and whether
-- heads of other tracks changed too.
local function take(work, tag)
  local tenant, track, charged = work.tenant, work.track, work.cost
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
  hold_slot(work, user, charged, 1)
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

-- Answers one line per node: id|tenant|user|type|lane|model|cost|rank|charged|tag.
local function dispatch(limit, lease_ms)
  local lines, records, leases, gone, decisions = {}, {}, {}, {}, {}
  if limit == 0 then
    return ""
  end
  read_limits()
  local windows, confirm_by, at = {}, now_ms + lease_ms, format("%d|", now_ms)
  local open = open_tracks(windows, limit + 1)
  while #lines < limit do
    local best, best_tag, best_turn, best_id
    for i = 1, #open do
      local tag, number, id = first_head(open[i])
      if tag and (not best or tag < best_tag or (tag == best_tag and number < best_turn)) then
        best, best_tag, best_turn, best_id = open[i], tag, number, id
      end
    end
    if not best then
      break
    end
    local next_tag, next_turn, next_id
    for i = 1, #open do
      local tag, number, id = first_head(open[i], best_id)
      if tag and (not next_id or tag < next_tag or (tag == next_tag and number < next_turn)) then
        next_tag, next_turn, next_id = tag, number, id
      end
    end
    clock = max(clock, best_tag)
    local tenant, track = tenant_of(best_id), best.track
    local work = work_of(tenant, track)
    local id, cost, user, charged, score, is_refresh = take(work, best_tag)
    if id then
      if is_refresh then
        for _, window in pairs(windows) do
          window.rows, window.at, window.extra, window.is_cut = {}, 1, {}, true
        end
      else
        add_to_window(best, work)
      end
      local tag_text, charged_text, score_text = format("%d", best_tag), format("%d", charged), format("%d", score)
      local of, place = tenant.id .. "|" .. user .. "|", #lines + 1
      lines[place] = id .. "|" .. of .. track.name .. "|" .. cost .. "|" .. floor(score / NODE_RANK) .. "|" .. charged_text
        .. "|" .. tag_text
      records[2 * place - 1], records[2 * place] = id, of .. track.index .. "|" .. cost .. "|" .. charged_text .. "|" .. score_text
      leases[2 * place - 1], leases[2 * place] = confirm_by, numbered(score % NODE_RANK, id)
      gone[place] = id
      decisions[place] = at .. id .. "|" .. of .. track.index .. "|" .. charged_text .. "|" .. tag_text .. "|"
        .. (next_id or "") .. "|" .. (next_id and format("%d", next_tag) or "")
      local counts, is_full = track.counts, false
      for i = 1, 3 do
        local name = counts[i]
        running_of[name] = running_of[name] + 1
        is_full = is_full or running_of[name] >= limits[name]
      end
      running_of.all = running_of.all + 1
      if is_full or running_of.all >= limits.all then
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
