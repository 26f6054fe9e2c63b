--[[ choose: takes the smallest tags whose tracks are open, one after the other. ]]

-- A head whose model is loaded may pass a few others, if none of them could fall behind by more than the bound.
local function is_fair_to_prefer(choice, choice_track, open)
  local tag, passed = choice.tag + choice_track.lag, 0
  for _, track in ipairs(open) do
    local before = heads_before(track, tag - track.lag, choice.seq, PASS_OVER_LIMIT)
    passed = passed + #before
    if passed > PASS_OVER_LIMIT then
      return false
    end
    for _, head in ipairs(before) do
      local tenant = head.tenant
      if tenant ~= choice.tenant then
        local dearest = charge(max(head.cost, tenant.dearest), tenant.weight)
        if tag > head.tag + track.lag - charge(head.cost, tenant.weight) + dearest then
          return false
        end
      end
    end
  end
  return true
end

-- The head to take and its track, and the smallest tag of all.
local function best_choice(open, warm)
  local best, best_track, best_tag
  local preferred, preferred_track, preferred_tag
  for i = 1, #open do
    local track = open[i]
    local head = first_head(track)
    if head then
      local tag = head.tag + track.lag
      if not best or tag < best_tag or (tag == best_tag and head.seq < best.seq) then
        best, best_track, best_tag = head, track, tag
      end
      if warm and warm[track.model]
        and (not preferred or tag < preferred_tag or (tag == preferred_tag and head.seq < preferred.seq)) then
        preferred, preferred_track, preferred_tag = head, track, tag
      end
    end
  end
  if preferred and preferred ~= best and is_fair_to_prefer(preferred, preferred_track, open) then
    return preferred, preferred_track, best_tag
  end
  return best, best_track, best_tag
end

-- Takes the first node of the user whose turn it is, for the head that is first on its track. Answers the node, and whether a
-- limit is full now.
local function take(head, track, confirm_by)
  local tenant, cost = head.tenant, head.cost
  local crowd = tenant.crowds[track.index]
  local line = crowd[1]
  local node, user = line.first, line.user
  tenant.last, tenant.dearest = max(tenant.last, head.tag + track.lag), max(tenant.dearest, cost)
  crowd.clock = max(crowd.clock, line.tag)
  unlink(node)
  local is_full = hold_slot(node, cost, confirm_by)
  serve(tenant, cost)
  if tenant.running < tenant.cap and not is_user_capped(user) then
    -- The usual case: the next one steps into the place of the one that goes.
    local follower = line.first
    if follower then
      line.cost, line.seq = cost_of(track, follower.cost), follower.seq
      line.tag = crowd.clock + line.cost
      sift_down(crowd, line, 1)
    else
      leave_crowd(tenant, track, line)
    end
    local first, contest = crowd[1], track.contest
    if first then
      head.tag, head.cost, head.seq = next_tag(tenant, track, first, false), first.cost, first.seq
      contest_down(contest, 1, head.tag, head.seq, head)
    else
      drop_head(tenant, track)
      drop_first(contest)
    end
  else
    drop_head(tenant, track)
    drop_first(track.contest)
    cap_tenant(tenant)
    heap_drop(crowd, line)
    if is_user_capped(user) then
      refresh_user(user, true)
    end
    refresh(line, false, true)
  end
  return node, is_full
end

-- Answers one line per node: id|tenant|user|type|lane|model|cost|charged|tag.
local function dispatch(limit, lease_ms, warm)
  local lines, open, confirm_by = {}, open_tracks(), now_ms + lease_ms
  for i = 1, limit do
    local head, track, smallest = best_choice(open, warm)
    if not head then
      break
    end
    local tag = head.tag + track.lag
    queue.clock = max(queue.clock, smallest)
    local node, is_full = take(head, track, confirm_by)
    lines[i] = format("%s|%s|%s|%s|%d|%d|%d", node.id, head.tenant.id, node.user.name, track.name, node.cost, node.charged, tag)
    if is_full then
      open = open_tracks()
    end
  end
  return concat(lines, "\n")
end

local function words(lines)
  local set
  for word in gmatch(lines, "[^\n]+") do
    set = set or {}
    set[word] = true
  end
  return set
end
