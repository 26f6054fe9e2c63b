--[[ note_progress -> "write" | "noted" | "late": store a node's progress and add it to the stream, unless a newer report
  was stored. "write": the interval since the last write to the database is over.
  KEYS[1] stream     of the task's events
  KEYS[2] progress   hash, node -> attempt, sequence, percent
  KEYS[3] written    exists until the next write to the database is due
  ARGV[1] node
  ARGV[2] attempt
  ARGV[3] sequence   rises with each message of the attempt
  ARGV[4] percent
  ARGV[5] body       JSON
  ARGV[6] keep       events to keep, about
  ARGV[7] ttl_s
  ARGV[8] interval_ms between two writes to the database
  ARGV[9] event      its name ]]
local stream, progress, written = KEYS[1], KEYS[2], KEYS[3]
local node, attempt, sequence, percent, body, keep, ttl_s, interval_ms, event = unpack(ARGV)

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
-- Progress has no number of its own: its entry id follows the last change of state in the stream. After Redis lost the
-- stream, progress is not added before the next change of state.
local last = redis.call("XREVRANGE", stream, "+", "-", "COUNT", 1)[1]
if last then
  local sequence_of_change = string.match(last[1], "^%d+")
  redis.call("XADD", stream, "MAXLEN", "~", keep, sequence_of_change .. "-*", "event", event, "body", body)
  redis.call("EXPIRE", stream, ttl_s)
end
if redis.call("SET", written, "1", "NX", "PX", interval_ms) then
  return "write"
end
return "noted"
