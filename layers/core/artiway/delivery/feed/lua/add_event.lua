--[[ add_event -> "added" | "behind": add a change of state to the task's stream, with the number that the database gave it.
  KEYS[1] stream     of the task's events
  KEYS[2] progress   hash, node -> attempt, sequence, percent
  ARGV[1] sequence   number of the event in the task
  ARGV[2] event      its name
  ARGV[3] body       JSON
  ARGV[4] keep       events to keep, about
  ARGV[5] ttl_s
  ARGV[6] node       or empty
  ARGV[7] attempt    at the node, or empty: the attempt in the hash
  ARGV[8] over       "1" if the attempt ends here, or empty: it begins ]]
local stream, progress = KEYS[1], KEYS[2]
local sequence, event, body, keep, ttl_s, node, attempt, over = unpack(ARGV)

if node ~= "" then
  local known, _, percent = string.match(redis.call("HGET", progress, node) or "", "^(%d+) (%d+) (%d+)$")
  attempt = attempt ~= "" and attempt or known or "0"
  local is_newer = not known or tonumber(known) < tonumber(attempt)
  if is_newer then
    percent = "0"
  end
  -- After an attempt has ended, its remaining progress reports are late, for any sequence.
  if over ~= "" and (is_newer or known == attempt) then
    redis.call("HSET", progress, node, attempt .. " 999999999999999 " .. percent)
    redis.call("EXPIRE", progress, ttl_s)
  elseif over == "" and is_newer then
    redis.call("HSET", progress, node, attempt .. " 0 0")
    redis.call("EXPIRE", progress, ttl_s)
  end
end
-- An event that arrives after a later one, or twice, is not added: a reader that finds the gap reads the database.
local added = redis.pcall("XADD", stream, "MAXLEN", "~", keep, sequence .. "-0", "event", event, "body", body)
if type(added) == "table" and added.err then
  return "behind"
end
redis.call("EXPIRE", stream, ttl_s)
return "added"
