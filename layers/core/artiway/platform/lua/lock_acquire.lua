--[[ lock_acquire -> fence | 0: take the lock if it is free, expired, or already ours (a repeated call).
  KEYS[1] lock     hash, fields token, fence and expires_ms
  KEYS[2] fence    counter, incremented each time a lock is acquired
  ARGV[1] token    random, of this owner
  ARGV[2] ttl_ms
  ARGV[3] now_ms   "" for the server's clock, which all owners share ]]
local lock, fence = KEYS[1], KEYS[2]
local token, ttl_ms, now_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if not now_ms then
  local time = redis.call("TIME")
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end
local held = redis.call("HMGET", lock, "token", "expires_ms", "fence")
local is_held = held[1] and tonumber(held[2]) > now_ms
if is_held and held[1] ~= token then
  return 0
end
local number = is_held and tonumber(held[3]) or redis.call("INCR", fence)
redis.call("HSET", lock, "token", token, "fence", string.format("%.0f", number),
  "expires_ms", string.format("%.0f", now_ms + ttl_ms))
redis.call("PEXPIRE", lock, ttl_ms)
return number
