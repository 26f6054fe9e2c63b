--[[ heads: keeps the first node of each user among its tenant's, and of each tenant on its track.
  users:<track>|<tenant>         zset: arrival|user by priority and tag: the users that could go, each with its first node
  nodes:<track>|<tenant>|<user>  zset: node|cost by priority and arrival
  held:<tenant>                  set: users that wait at their cap ]]
local function charge(cost, weight)
  return ceil(cost / weight)
end

-- A tag is max(clock, last) + cost/weight. A tenant that returns from its cap, or with a rebuild, comes in at the clock and
-- not a node behind it: the cap was its wait. `last` moves along: heads on several tracks queue up behind each other.
local function tag_head(work, cost, of, is_return, is_continuing)
  local tenant, track = work.tenant, work.track
  if tenant.heads == 0 and not is_continuing then
    -- What an idle tenant overpaid only undoes its charges: it saves up nothing below the clock.
    tenant.last, tenant.credit, tenant.since = max(0, tenant.last - tenant.credit), 0, now_ms
  end
  local due = charge(cost, tenant.weight)
  local tag = max(is_return and clock - due or clock, tenant.last) + due
  if tenant.credit > 0 then
    -- Overpaid cost brings a tag forward, but not before the clock; what is left waits for the next head.
    local used = min(tenant.credit, tag - clock)
    tenant.credit, tag = tenant.credit - used, tag - used
  end
  turn = turn + 1
  tenant.last, tenant.heads = tag, tenant.heads + 1
  work.tag, work.turn, work.cost, work.seq, work.alone = tag - lag_of(track), turn, cost, of, ""
  change(tenant)
  change_work(work)
end

local function drop_head(work)
  work.tag, work.tenant.heads = false, work.tenant.heads - 1
  change(work.tenant)
  change_work(work)
end

-- A head that leaves undispatched was never charged.
local function refund_head(work)
  work.tenant.last = work.tenant.last - charge(work.cost, work.tenant.weight)
  drop_head(work)
end

-- What the first node of a user is charged when it becomes its tenant's head.
local function first_cost(work, user)
  local cost = learned_cost(work.track)
  if not cost then
    local row = call("ZRANGE", nodes_key(work.track.index, work.tenant.id, user), 0, 0)
    cost = row[1] and tonumber(match(row[1], "|(%d+)$"))
    if not cost then
      damaged()
      return 1
    end
  end
  return cost
end

-- Makes the tenant's head agree with the first of its users, after anything changed.
local function refresh_head(work, is_return, is_continuing)
  local tenant, row = work.tenant, call("ZRANGE", work.users, 0, 0)
  local member = row[1]
  if not member then
    if work.clock ~= 0 then
      work.clock = 0
      change_work(work)
    end
    if work.tag then
      refund_head(work)
    end
  elseif not tenant.is_capped then
    local of, user = tonumber(sub(member, 1, 13)), sub(member, 15)
    if not work.tag then
      tag_head(work, first_cost(work, user), of, is_return, is_continuing)
    elseif work.seq ~= of then
      local cost = first_cost(work, user)
      local difference = charge(cost, tenant.weight) - charge(work.cost, tenant.weight)
      tenant.last, work.tag, work.cost, work.seq, work.alone = tenant.last + difference, work.tag + difference, cost, of, ""
      change(tenant)
      change_work(work)
    end
  end
end

local function put_user(work, user, rank, tag, of)
  if tag > USER_CLOCK_LIMIT then
    damaged()
  end
  call("ZADD", work.users, rank * USER_RANK + tag, numbered(of, user))
end

-- Puts a node into its user's queue: at the end, or further ahead by its priority or because it comes back. `cost` is text.
local function put(work, user, id, cost, rank, of, is_return)
  local tenant, index = work.tenant, work.track.index
  local key, score, was_empty = nodes_key(index, tenant.id, user), rank * NODE_RANK + of, work.waiting == 0
  local first = was_empty and {} or call("ZRANGE", key, 0, 0, "WITHSCORES")
  local cost_text = cost
  cost = tonumber(cost_text)
  call("ZADD", key, score, id .. "|" .. cost_text)
  count_waiting(work, cost, 1)
  if first[1] and tonumber(first[2]) < score then
    return
  end
  if is_user_capped(tenant, user) then
    call("SADD", held_key(tenant.id), user)
    return
  end
  local start = work.clock
  if first[1] then
    local member = numbered(first[2] % NODE_RANK, user)
    start = (call("ZSCORE", work.users, member) or work.clock) % USER_RANK - match(first[1], "|(%d+)$")
    call("ZREM", work.users, member)
  end
  put_user(work, user, rank, max(work.clock, start + cost), of)
  if was_empty and not tenant.is_capped then
    tag_head(work, learned_cost(work.track) or cost, of, is_return, false)
    work.alone = rank .. "|" .. user .. "|" .. id .. "|" .. cost_text
  else
    refresh_head(work, is_return, false)
  end
end

-- Brings a user's places on all tracks in line with its cap.
local function refresh_user(tenant, user, is_continuing)
  local is_capped, is_waiting = is_user_capped(tenant, user), false
  for _, work in ipairs(waiting_works(tenant)) do
    local first = call("ZRANGE", nodes_key(work.track.index, tenant.id, user), 0, 0, "WITHSCORES")
    if first[1] then
      is_waiting = true
      local member = numbered(first[2] % NODE_RANK, user)
      if is_capped then
        call("ZREM", work.users, member)
      elseif not call("ZSCORE", work.users, member) then
        put_user(work, user, floor(first[2] / NODE_RANK), work.clock + match(first[1], "|(%d+)$"), first[2] % NODE_RANK)
      end
      refresh_head(work, false, is_continuing)
    end
  end
  if is_capped and is_waiting then
    call("SADD", held_key(tenant.id), user)
  else
    call("SREM", held_key(tenant.id), user)
  end
end

-- Takes a node out of its user's queue, wherever it stands there.
local function remove(work, user, id, cost, score)
  local tenant, key = work.tenant, nodes_key(work.track.index, work.tenant.id, user)
  local member = id .. "|" .. cost
  local rows = call("ZRANGE", key, 0, 1, "WITHSCORES")
  call("ZREM", key, member)
  count_waiting(work, tonumber(cost), -1)
  if rows[1] ~= member then
    return
  end
  local old = numbered(score % NODE_RANK, user)
  local old_score = call("ZSCORE", work.users, old)
  if old_score then
    call("ZREM", work.users, old)
    if rows[3] then
      local start = old_score % USER_RANK - cost
      put_user(work, user, floor(rows[4] / NODE_RANK), max(work.clock, start + match(rows[3], "|(%d+)$")), rows[4] % NODE_RANK)
    end
    refresh_head(work, false, false)
  elseif not rows[3] then
    refresh_user(tenant, user, false) -- at its cap, and perhaps it waits nowhere else
  end
end
