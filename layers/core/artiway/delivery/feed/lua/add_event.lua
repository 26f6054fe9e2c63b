--[[ add_event -> "added" | "behind": put a change of state into the task's stream, at the place that the database gave it.
  KEYS[1] stream     of the task's events
  KEYS[2] progress   hash, node -> attempt, sequence, percent
  ARGV[1] sequence   number of the event in the task
  ARGV[2] event      its name
  ARGV[3] body       JSON
  ARGV[4] keep       events to keep, about
  ARGV[5] ttl_s
  ARGV[6] node       or empty
  ARGV[7] attempt    that the node is in from here on, or empty ]]
local stream, progress = KEYS[1], KEYS[2]
local sequence, event, body, keep, ttl_s, node, attempt = unpack(ARGV)

if node ~= "" and attempt ~= "" then
  local known = redis.call("HGET", progress, node)
  if not known or tonumber(string.match(known, "^%d+")) < tonumber(attempt) then
    redis.call("HSET", progress, node, attempt .. " 0 0")
    redis.call("EXPIRE", progress, ttl_s)
  end
end
-- An event that comes after a later one, or twice, is not added: who reads past the gap asks the database.
local added = redis.pcall("XADD", stream, "MAXLEN", "~", keep, sequence .. "-0", "event", event, "body", body)
if type(added) == "table" and added.err then
  return "behind"
end
redis.call("EXPIRE", stream, ttl_s)
return "added"
