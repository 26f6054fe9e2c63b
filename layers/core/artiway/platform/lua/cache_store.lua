--[[ cache_store -> {"stored", head} | {"superseded"}: keep what was loaded, unless it was invalidated meanwhile.
  KEYS[1] value      the cached text
  KEYS[2] loading    token of the one who loads
  KEYS[3] head       id of the last invalidation
  ARGV[1] token      the loader's own
  ARGV[2] text
  ARGV[3] ttl_ms     0 keeps nothing and only makes room for the next loader ]]
local value, loading, head = KEYS[1], KEYS[2], KEYS[3]
local token, text, ttl_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- An invalidation takes the token away: what was read before it must not be written after it.
if redis.call("GET", loading) ~= token then
  return {"superseded"}
end
redis.call("DEL", loading)
if ttl_ms > 0 then
  redis.call("SET", value, text, "PX", ttl_ms)
end
return {"stored", redis.call("GET", head)}
