--[[ enter_listener -> {0, 0} | {index, retry_ms}: take a lease for one more open stream in every group, or in none.
  KEYS[1]   listeners  zset of the user, token -> expires_ms by the server's clock
  KEYS[i]   listeners  zset of another group
  ARGV[1]   token      of the new listener
  ARGV[2]   ttl_ms     the lease of a crashed function expires after this
  ARGV[2+i] limit      listeners of the group that may be open
  In a full group of the user the oldest lease is dropped from all groups. index is the first of the others that is
  full, retry_ms the time until its next lease expires. ]]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local oldest
for index, listeners in ipairs(KEYS) do
  redis.call("ZREMRANGEBYSCORE", listeners, "-inf", string.format("%.0f", now_ms))
  local free = tonumber(ARGV[2 + index]) - redis.call("ZCARD", listeners)
  if index == 1 and free <= 0 then
    oldest = redis.call("ZRANGE", listeners, 0, 0)[1]
  elseif index > 1 and oldest and redis.call("ZSCORE", listeners, oldest) then
    free = free + 1
  end
  if index > 1 and free <= 0 then
    local first = redis.call("ZRANGE", listeners, 0, 0, "WITHSCORES")
    return {index, math.max(1, tonumber(first[2]) - now_ms)}
  end
end
for _, listeners in ipairs(KEYS) do
  if oldest then
    redis.call("ZREM", listeners, oldest)
  end
  redis.call("ZADD", listeners, string.format("%.0f", now_ms + ttl_ms), token)
  redis.call("PEXPIREAT", listeners, redis.call("ZRANGE", listeners, -1, -1, "WITHSCORES")[2])
end
return {0, 0}
