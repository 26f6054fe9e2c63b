--[[ commit -> "committed" | "stale": what was loaded becomes the queue, in one step.
  KEYS[1] epoch    string
  KEYS[2] loading  string: the epoch that is being loaded; another one there means that somebody else began later
  ARGV[1] epoch ]]
if redis.call("GET", KEYS[2]) ~= ARGV[1] then
  return "stale"
end
redis.call("RENAME", KEYS[2], KEYS[1])
return "committed"
