--[[ enter_listener -> 0 | retry_ms: take a lease for one more waiting request of a user, or return when the next lease expires.
  KEYS[1] listeners  zset, token -> expires_ms by the server's clock
  ARGV[1] token      of the new listener
  ARGV[2] limit      listeners that may be open
  ARGV[3] ttl_ms     the lease of a crashed function expires after this ]]
local listeners = KEYS[1]
local token, limit, ttl_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call("ZREMRANGEBYSCORE", listeners, "-inf", string.format("%.0f", now_ms))
if redis.call("ZCARD", listeners) >= limit then
  local first = redis.call("ZRANGE", listeners, 0, 0, "WITHSCORES")
  return math.max(1, tonumber(first[2]) - now_ms)
end
redis.call("ZADD", listeners, string.format("%.0f", now_ms + ttl_ms), token)
redis.call("PEXPIREAT", listeners, redis.call("ZRANGE", listeners, -1, -1, "WITHSCORES")[2])
return 0
