--[[ note_progress -> "write" | "noted" | "late": keep a node's progress and tell it, unless something newer is known.
  "write" says that the database has not been told for a while.
  KEYS[1] stream     of the task's events
  KEYS[2] progress   hash, node -> attempt, sequence, percent
  KEYS[3] written    there while the database knows enough
  ARGV[1] node
  ARGV[2] attempt
  ARGV[3] sequence   rises with each message of the attempt
  ARGV[4] percent
  ARGV[5] body       JSON
  ARGV[6] keep       events to keep, about
  ARGV[7] ttl_s
  ARGV[8] interval_ms between two writes to the database ]]
local stream, progress, written = KEYS[1], KEYS[2], KEYS[3]
local node, attempt, sequence, percent, body, keep, ttl_s, interval_ms = unpack(ARGV)

local known = redis.call("HGET", progress, node)
if known then
  local known_attempt, known_sequence = string.match(known, "^(%d+) (%d+)")
  known_attempt, known_sequence = tonumber(known_attempt), tonumber(known_sequence)
  if known_attempt > tonumber(attempt)
    or (known_attempt == tonumber(attempt) and known_sequence >= tonumber(sequence)) then
    return "late"
  end
end
redis.call("HSET", progress, node, attempt .. " " .. sequence .. " " .. percent)
redis.call("EXPIRE", progress, ttl_s)
-- After the last change of state that is here; progress is told in between and has no number of its own. Where Redis
-- was emptied there is no place for it before the next change.
local last = redis.call("XREVRANGE", stream, "+", "-", "COUNT", 1)[1]
if last then
  local place = string.match(last[1], "^%d+")
  redis.call("XADD", stream, "MAXLEN", "~", keep, place .. "-*", "event", "progress", "body", body)
  redis.call("EXPIRE", stream, ttl_s)
end
if redis.call("SET", written, "1", "NX", "PX", interval_ms) then
  return "write"
end
return "noted"
