--[[ cache_claim -> {"found", value, head} | {"claimed"} | {"busy"}: read again, and become the loader if there is none.
  KEYS[1] value      the cached text
  KEYS[2] loading    token of the loading reader; it expires if that reader dies
  KEYS[3] head       id of the last invalidation
  ARGV[1] token      random, of this reader
  ARGV[2] load_ms    how long readers wait for a loader ]]
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
