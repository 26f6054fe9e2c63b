--[[ lock_release -> "released" | "lost": give the lock back, if it is still the caller's.
  KEYS[1] lock     hash, field token
  ARGV[1] token    the owner's own ]]
local lock = KEYS[1]
local token = ARGV[1]

if redis.call("HGET", lock, "token") ~= token then
  return "lost"
end
redis.call("DEL", lock)
return "released"
