#!lua flags=no-writes,allow-oom
--[[ explain -> JSON {state, ...}; "stale": where a node stands, and everything that could hold it.
  KEYS     as in includes/keys.lua
  ARGV[1] epoch   ARGV[2] now_ms
  ARGV[3] node
before_of_user is exact. before_of_tenant counts as if all nodes cost the same; of more than USERS_READ users the rest is
taken to be like those. ]]
--@include keys
--@include pool
--@include tenants
--@include heads
--@include slots
--@include nodes
local USERS_READ = 100
local PRIORITIES = { "HIGH", "NORMAL", "LOW" }

-- Nodes of other users of the tenant that go before the k-th of a priority of this user.
local function before_of_others(work, user, rank, k, own_score, own_member)
  local rows, found, read = call("ZRANGE", work.users, 0, USERS_READ, "WITHSCORES"), 0, 0
  for i = 1, #rows, 2 do
    local other = sub(rows[i], 15)
    if other ~= user then
      local key = nodes_key(work.track.index, work.tenant.id, other)
      local score = tonumber(rows[i + 1])
      local is_earlier = not own_score or score < own_score or (score == own_score and rows[i] < own_member)
      local same = call("ZCOUNT", key, rank * NODE_RANK, "(" .. format("%d", (rank + 1) * NODE_RANK))
      found = found + call("ZCOUNT", key, "-inf", "(" .. format("%d", rank * NODE_RANK)) + min(same, is_earlier and k + 1 or k)
      read = read + 1
    end
  end
  local others = call("ZCARD", work.users)
  return read > 0 and floor(found * max(1, (others - 1) / read)) or 0
end

if not read_pool() then
  return "stale"
end
local id = ARGV[3]
local place, run = call("HGET", WHERE, id), call("HGET", RUNNING, id)
if not place and not run then
  return cjson.encode({ state = "unknown" })
end
local track, owner, user, cost, rank, charged
if place then
  local index, score
  index, owner, user, cost, score = match(place, PLACE)
  track, rank = tracks[tonumber(index)], floor(score / NODE_RANK)
else
  local node = read_running({ id })[id]
  track, owner, user, cost, rank, charged = node.track, node.owner, node.user, node.cost, tonumber(node.rank), node.charged
end
local tenant, name = tenant_of(owner), owner .. "|" .. user
local user_cap = tonumber(call("HGET", USER_CAPS, name)) or tenant.user_cap
local answer = {
  state = place and "waiting" or "running",
  track = track.name,
  priority = PRIORITIES[rank + 1],
  cost_us = tonumber(cost),
  charged_us = charged,
  tenant_running = tenant.running,
  user_running = has_user_caps(tenant) and (tonumber(call("HGET", USER_RUNNING, name)) or 0) or nil,
  tenant_cap = tenant.cap ~= UNLIMITED and tenant.cap or nil,
  user_cap = user_cap ~= UNLIMITED and user_cap or nil,
}
if place then
  local work, key = work_of(tenant, track), nodes_key(track.index, owner, user)
  local first = call("ZRANGE", key, 0, 0, "WITHSCORES")
  local member = first[2] and numbered(first[2] % NODE_RANK, user)
  local own_score = member and tonumber(call("ZSCORE", work.users, member) or nil)
  answer.before_of_user = call("ZRANK", key, id .. "|" .. cost) or 0
  local higher = call("ZCOUNT", key, "-inf", "(" .. format("%d", rank * NODE_RANK))
  if first[2] and floor(first[2] / NODE_RANK) ~= rank then
    own_score = nil -- its user has not reached this priority, and others may have
  end
  answer.before_of_tenant = answer.before_of_user
    + before_of_others(work, user, rank, answer.before_of_user - higher, own_score, member)
  if work.tag then
    answer.tag = format("%d", work.tag + lag_of(track))
    answer.tenants_before = call("ZRANK", heads_key(track.index), numbered(work.turn, owner)) or 0
  end
end
return cjson.encode(answer)
