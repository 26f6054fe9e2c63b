--[[ cache_claim -> {"found", value, head} | {"claimed"} | {"busy"}: look again, and become the loader if nobody is.
  KEYS[1] value      the cached text
  KEYS[2] loading    token of the one who loads; expires with a loader that died
  KEYS[3] head       id of the last invalidation
  ARGV[1] token      random, the reader's own
  ARGV[2] load_ms    how long a loader is waited for ]]
local value, loading, head = KEYS[1], KEYS[2], KEYS[3]
local token, load_ms = ARGV[1], ARGV[2]

local found = redis.call("GET", value)
if found then
  return {"found", found, redis.call("GET", head)}
end
if redis.call("SET", loading, token, "NX", "PX", load_ms) then
  return {"claimed"}
end
return {"busy"}
