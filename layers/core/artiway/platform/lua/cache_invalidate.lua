--[[ cache_invalidate -> head: forget keys, and write down for other processes what they must forget.
  KEYS[1] log        stream of what was invalidated, field what; only the latest are kept
  KEYS[2] head       id of its last entry
  KEYS[3..] doomed   values and loaders' tokens
  ARGV[1] what       a key, or a prefix followed by *
  ARGV[2] keep       entries that the log keeps, about ]]
local log, head = KEYS[1], KEYS[2]
local what, keep = ARGV[1], ARGV[2]

for i = 3, #KEYS do
  redis.call("UNLINK", KEYS[i])
end
local id = redis.call("XADD", log, "MAXLEN", "~", keep, "*", "what", what)
redis.call("SET", head, id)
return id
