--[[ return_tokens -> level: give back tokens that a request reserved and did not use.
  KEYS[1] quota      as of take_quota; a missing one is full and stays missing
  ARGV[1] tokens     of the provider in a minute
  ARGV[2] unused     tokens to give back ]]
local ONE = 60000
local quota = KEYS[1]
local level = redis.call("HGET", quota, "tokens")
if not level then
  return 0
end
level = math.min(ARGV[1] * ONE, level + ARGV[2] * ONE)
redis.call("HSET", quota, "tokens", string.format("%.0f", level))
return math.floor(level / ONE)
