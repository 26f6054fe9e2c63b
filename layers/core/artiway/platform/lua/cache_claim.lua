--[[ cache_claim -> {"found", value, head} | {"claimed"} | {"busy"}: read again, and become the loader if there is none.
  KEYS[1] value      the cached text
  KEYS[2] loading    token of the loading reader; it expires if that reader dies
  KEYS[3] head       id of the last invalidation
  ARGV[1] token      random, of this reader
  ARGV[2] load_ms    how long readers wait for a loader
  ARGV[3] is_refresh "1" loads again although there is a value ]]
local value, loading, head = KEYS[1], KEYS[2], KEYS[3]
local token, load_ms, is_refresh = ARGV[1], ARGV[2], ARGV[3] == "1"

local found = redis.call("GET", value)
if found and not is_refresh then
  return {"found", found, redis.call("GET", head)}
end
if redis.call("SET", loading, token, "NX", "PX", load_ms) then
  return {"claimed"}
end
return {"busy"}
