--[[ take_quota -> wait_ms: take a request and its tokens from a provider's minute, or nothing. 0 is taken.
  KEYS[1] quota      hash, fields requests, tokens (levels in 60,000ths) and at_ms; a missing one is full
  ARGV[1] now_ms     "" for the server's own clock
  ARGV[2] requests   of the provider in a minute, 0 without a limit
  ARGV[3] tokens     of the provider in a minute, 0 without a limit
  ARGV[4] wanted     tokens of this request; more than a minute's count as a full minute's ]]
local ONE = 60000 -- a minute in milliseconds, so that a level grows by its limit each millisecond
local quota = KEYS[1]
local now_ms = tonumber(ARGV[1])
if not now_ms then
  local time = redis.call("TIME")
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end

local limits = { requests = tonumber(ARGV[2]), tokens = tonumber(ARGV[3]) }
local wanted = { requests = 1, tokens = math.min(tonumber(ARGV[4]), limits.tokens) }
local stored = redis.call("HMGET", quota, "requests", "tokens", "at_ms")
-- A clock that was set back neither adds nor removes.
local passed_ms = stored[3] and math.max(0, now_ms - stored[3]) or 0
local before = { requests = stored[1], tokens = stored[2] }

local levels, wait_ms = {}, 0
for name, limit in pairs(limits) do
  if limit > 0 then
    local level = before[name] and math.min(limit * ONE, before[name] + passed_ms * limit) or limit * ONE
    levels[name] = level
    wait_ms = math.max(wait_ms, math.ceil((wanted[name] * ONE - level) / limit))
  end
end
if wait_ms == 0 then
  for name, level in pairs(levels) do
    redis.call("HSET", quota, name, string.format("%.0f", level - wanted[name] * ONE))
  end
  redis.call("HSET", quota, "at_ms", string.format("%.0f", now_ms))
  redis.call("PEXPIRE", quota, ONE + 1000) -- after a minute every level is full
end
return wait_ms
