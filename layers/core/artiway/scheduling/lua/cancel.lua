#!lua flags=allow-oom
--[[ cancel -> "cancelled" | "running" | "unknown" per node; "stale": nodes that wait leave the queue.
  KEYS     as in includes/keys.lua
  ARGV[1] epoch   ARGV[2] now_ms
  ARGV[3] nodes   lines of ids; a node that runs is for the worker to stop, and ends by complete ]]
--@include keys
--@include arguments
--@include pool
--@include tenants
--@include heads
--@include nodes
local ids = check_ids(ARGV[3])
if not read_pool() then
  return "stale"
end
local verdicts, gone = {}, {}
local places, running, is_gone = read_with("HMGET", WHERE, ids), read_with("HMGET", RUNNING, ids), {}
for i, id in ipairs(ids) do
  if running[i] then
    verdicts[i] = "running"
  elseif places[i] and not is_gone[id] then
    local index, owner, user, cost, score = match(places[i], PLACE)
    remove(work_of(tenant_of(owner), tracks[tonumber(index)]), user, id, cost, score)
    verdicts[i], is_gone[id], gone[#gone + 1] = "cancelled", true, id
  else
    verdicts[i] = "unknown"
  end
end
call_with("HDEL", WHERE, gone)
write_all()
return concat(verdicts, "\n")
