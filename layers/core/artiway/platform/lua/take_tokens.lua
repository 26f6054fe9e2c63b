--[[ take_tokens -> {is_allowed, index, remaining, reset_ms, retry_ms}: take one token from every bucket, or none.
  The result describes the limiting bucket: the one with the longest wait, else the one with the fewest tokens.
  KEYS[1..n]       bucket i   hash, fields level (thousandths of a token) and at_ms; a missing bucket is full
  KEYS[n+1]        requests   hash, field all: the requests of this minute, refused ones included
  ARGV[1] now_ms   "" for the server's own clock
  ARGV[2i]         rate       tokens a second of bucket i, which is thousandths a millisecond, so all values are integers
  ARGV[2i+1]       burst      tokens that bucket i holds ]]
local ONE, COUNTS_KEPT_S = 1000, 3600
local requests = table.remove(KEYS)
local now_ms = tonumber(ARGV[1])
if not now_ms then
  local time = redis.call("TIME")
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end

local levels, retry_ms, slowest = {}, 0, 1
for i, bucket in ipairs(KEYS) do
  local rate, full = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1]) * ONE
  local stored = redis.call("HMGET", bucket, "level", "at_ms")
  local level = full
  if stored[1] then
    -- A clock that was set back neither adds nor removes tokens.
    level = math.min(full, stored[1] + math.max(0, now_ms - stored[2]) * rate)
  end
  levels[i] = level
  local wait_ms = math.ceil((ONE - level) / rate)
  if wait_ms > retry_ms then
    retry_ms, slowest = wait_ms, i
  end
end

local is_allowed, index = retry_ms == 0, slowest
for i, bucket in ipairs(KEYS) do
  if is_allowed then
    local rate, full = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1]) * ONE
    levels[i] = levels[i] - ONE
    redis.call("HSET", bucket, "level", string.format("%.0f", levels[i]), "at_ms", string.format("%.0f", now_ms))
    -- A full bucket equals a missing one, so it may expire.
    redis.call("PEXPIRE", bucket, math.ceil((full - levels[i]) / rate) + 1000)
    if math.floor(levels[i] / ONE) < math.floor(levels[index] / ONE) then
      index = i
    end
  end
end
if redis.call("HINCRBY", requests, "all", 1) == 1 then
  redis.call("EXPIRE", requests, COUNTS_KEPT_S)
end
local reset_ms = math.ceil((ARGV[2 * index + 1] * ONE - levels[index]) / ARGV[2 * index])
return {is_allowed and 1 or 0, index, math.max(0, math.floor(levels[index] / ONE)), reset_ms, retry_ms}
