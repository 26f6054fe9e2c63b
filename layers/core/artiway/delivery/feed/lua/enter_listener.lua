--[[ enter_listener -> {0, 0} | {index, retry_ms}: take a lease for one more waiting request in every group, or in none.
  KEYS[i]   listeners  zset of a group, token -> expires_ms by the server's clock
  ARGV[1]   token      of the new listener
  ARGV[2]   ttl_ms     the lease of a crashed function expires after this
  ARGV[2+i] limit      listeners of the group that may be open
  index is the first group that is full, retry_ms the time until its next lease expires. ]]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

for index, listeners in ipairs(KEYS) do
  redis.call("ZREMRANGEBYSCORE", listeners, "-inf", string.format("%.0f", now_ms))
  if redis.call("ZCARD", listeners) >= tonumber(ARGV[2 + index]) then
    local first = redis.call("ZRANGE", listeners, 0, 0, "WITHSCORES")
    return {index, math.max(1, tonumber(first[2]) - now_ms)}
  end
end
for _, listeners in ipairs(KEYS) do
  redis.call("ZADD", listeners, string.format("%.0f", now_ms + ttl_ms), token)
  redis.call("PEXPIREAT", listeners, redis.call("ZRANGE", listeners, -1, -1, "WITHSCORES")[2])
end
return {0, 0}
