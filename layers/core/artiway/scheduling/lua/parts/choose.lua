--[[ choose: takes the smallest tags whose tracks are open, one after the other. ]]

-- One whose model is loaded may pass a few others, if none of them could fall behind by more than the bound.
local function is_fair_to_prefer(warm_crowd, open)
  local tag, passed = warm_crowd.tag + warm_crowd.track.lag, 0
  for _, track in ipairs(open) do
    local before = crowds_before(track.contest, tag - track.lag, warm_crowd.seq, PASS_OVER_LIMIT)
    passed = passed + #before
    if passed > PASS_OVER_LIMIT then
      return false
    end
    for _, crowd in ipairs(before) do
      local tenant = crowd.tenant
      if tenant ~= warm_crowd.tenant then
        local dearest = charge(max(crowd.cost, tenant.dearest), tenant.weight)
        if tag > crowd.tag + track.lag - charge(crowd.cost, tenant.weight) + dearest then
          return false
        end
      end
    end
  end
  return true
end

-- The crowd whose turn it is, and the smallest tag of all.
local function best_choice(open, warm)
  local best_crowd, best_tag, warm_crowd, warm_tag
  for i = 1, #open do
    local track = open[i]
    local crowd = first_crowd(track.contest)
    if crowd then
      local tag = crowd.tag + track.lag
      if not best_crowd or tag < best_tag or (tag == best_tag and crowd.seq < best_crowd.seq) then
        best_crowd, best_tag = crowd, tag
      end
      if warm and warm[track.model]
        and (not warm_crowd or tag < warm_tag or (tag == warm_tag and crowd.seq < warm_crowd.seq)) then
        warm_crowd, warm_tag = crowd, tag
      end
    end
  end
  if warm_crowd and warm_crowd ~= best_crowd and is_fair_to_prefer(warm_crowd, open) then
    return warm_crowd, best_tag
  end
  return best_crowd, best_tag
end

-- Takes the first node of the user whose turn it is, of the crowd that is first on its track. Answers the node, and whether a
-- limit is full now.
local function take(crowd, confirm_by)
  local tenant, track, cost, line = crowd.tenant, crowd.track, crowd.cost, crowd[CROWD + 1]
  local node, user, contest = line.first, line.user, track.contest
  tenant.last, tenant.dearest = max(tenant.last, crowd.tag + track.lag), max(tenant.dearest, cost)
  crowd.clock = max(crowd.clock, line.tag)
  unlink(node)
  local is_full = hold_slot(node, cost, confirm_by)
  serve(tenant, cost)
  if tenant.running < tenant.cap and not is_user_capped(user) then
    -- The usual case: the next one steps into the place of the one that goes.
    local next_node = line.first
    if next_node then
      line.cost, line.seq = cost_of(track, next_node.cost), next_node.seq
      line.tag = crowd.clock + line.cost
      sift_down(crowd, line, 1)
    else
      heap_drop(crowd, line)
    end
    line = crowd[CROWD + 1]
    if line then
      crowd.tag, crowd.cost, crowd.seq = next_tag(tenant, track, line.cost, false), line.cost, line.seq
      contest_down(contest, 1, crowd.tag, crowd.seq, crowd)
    else
      step_back(crowd)
      drop_first(contest)
      tenant.crowds[track.index] = nil
    end
  else
    step_back(crowd)
    drop_first(contest)
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
  if limit == 0 then
    return ""
  end
  local lines, open, confirm_by = {}, open_tracks(), now_ms + lease_ms
  for i = 1, limit do
    local crowd, smallest = best_choice(open, warm)
    if not crowd then
      break
    end
    local tag = crowd.tag + crowd.track.lag
    queue.clock = max(queue.clock, smallest)
    local node, is_full = take(crowd, confirm_by)
    lines[i] = format("%s|%s|%s|%s|%d|%d|%d", node.id, crowd.tenant.id, node.user.name, crowd.track.name, node.cost,
      node.charged, tag)
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
