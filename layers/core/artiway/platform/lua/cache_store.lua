--[[ cache_store -> {"stored", head} | {"superseded"}: store a loaded value, unless it was invalidated meanwhile.
  KEYS[1] value      the cached text
  KEYS[2] loading    token of the loading reader
  KEYS[3] head       id of the last invalidation
  ARGV[1] token      of this loader
  ARGV[2] text
  ARGV[3] ttl_ms     0 stores nothing and only releases the token ]]
local value, loading, head = KEYS[1], KEYS[2], KEYS[3]
local token, text, ttl_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- An invalidation deletes the token: a value read before it must not be stored after it.
if redis.call("GET", loading) ~= token then
  return {"superseded"}
end
redis.call("DEL", loading)
if ttl_ms > 0 then
  redis.call("SET", value, text, "PX", ttl_ms)
end
return {"stored", redis.call("GET", head)}
