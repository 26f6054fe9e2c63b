--[[ lock_release -> "released" | "lost": delete the lock, if the caller still owns it.
  KEYS[1] lock     hash, field token
  ARGV[1] token    of this owner ]]
local lock = KEYS[1]
local token = ARGV[1]

if redis.call("HGET", lock, "token") ~= token then
  return "lost"
end
redis.call("DEL", lock)
return "released"
