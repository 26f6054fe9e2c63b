--[[ lock_renew -> "renewed" | "lost": move the deadline, if the caller still owns the lock.
  KEYS[1] lock     hash, fields token and expires_ms
  ARGV[1] token    of this owner
  ARGV[2] ttl_ms
  ARGV[3] now_ms   "" for the server's own clock ]]
local lock = KEYS[1]
local token, ttl_ms, now_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if not now_ms then
  local time = redis.call("TIME")
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end
local held = redis.call("HMGET", lock, "token", "expires_ms")
-- An expired lock is not renewed: its owner may have seen the loss already.
if held[1] ~= token or tonumber(held[2]) <= now_ms then
  return "lost"
end
redis.call("HSET", lock, "expires_ms", string.format("%.0f", now_ms + ttl_ms))
redis.call("PEXPIRE", lock, ttl_ms)
return "renewed"
