--[[ cache_invalidate -> head: delete keys, and log for other processes what they must drop.
  KEYS[1] log        stream of what was invalidated, field what; only the latest are kept
  KEYS[2] head       id of its last entry
  KEYS[3..] doomed   values and loaders' tokens
  ARGV[1] what       a key, or a prefix followed by *, or nothing to begin a log
  ARGV[2] keep       entries that the log keeps, about
  ARGV[3] birth      random number, so that a new log after a flush in the same millisecond has another id ]]
local log, head = KEYS[1], KEYS[2]
local what, keep, birth = ARGV[1], ARGV[2], ARGV[3]

for i = 3, #KEYS do
  redis.call("UNLINK", KEYS[i])
end
if redis.call("EXISTS", log) == 0 then
  local time = redis.call("TIME")
  local now_ms = string.format("%.0f", time[1] * 1000 + math.floor(time[2] / 1000))
  redis.call("XADD", log, now_ms .. "-" .. birth, "what", "")
end
local id = redis.call("XADD", log, "MAXLEN", "~", keep, "*", "what", what)
redis.call("SET", head, id)
return id
