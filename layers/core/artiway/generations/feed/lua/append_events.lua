--[[ append_events -> "appended" | "fenced" | "ended" | "gap": append all events of an attempt to the stream, or none.
  KEYS[1]  stream      of the generation's events; an entry id is attempt-number
  ARGV[1]  attempt     of the writer
  ARGV[2]  per_text    numbers for each character of text: number = characters * per_text + notices after them
  ARGV[3]  ttl_s       of a stream that is written
  ARGV[4]  ended_ttl_s of a stream after its terminal event
  then for each event:
    kind    "text", "first", "notice" or "end"
    name    of the event
    body    JSON
    offset  characters before a text, or 0
    length  characters after a text or at the end, or 0
  "gap": text before these events is not in the stream. What is in the stream already is left out: a text, and a first
  event of the attempt once it has text. ]]
local stream = KEYS[1]
local attempt, per_text, ttl_s, ended_ttl_s = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

-- Entry 0-0 is not allowed by Redis.
local number = attempt == "0" and 0 or -1
local last = redis.call("XREVRANGE", stream, "+", "-", "COUNT", 1)[1]
if last then
  local last_attempt, last_number = string.match(last[1], "^(%d+)-(%d+)$")
  if tonumber(last_number) % per_text == per_text - 1 then
    return "ended"
  end
  if tonumber(last_attempt) > tonumber(attempt) then
    return "fenced"
  end
  if last_attempt == attempt then
    number = tonumber(last_number)
  end
end

local entries = {}
for i = 5, #ARGV, 5 do
  local kind, name, body, offset, length = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local characters = math.max(0, math.floor(number / per_text))
  local added
  if kind == "text" then
    if offset > characters then
      return "gap"
    end
    added = length > characters and length * per_text or nil
  elseif kind == "end" then
    if length > characters then
      return "gap"
    end
    added = characters * per_text + per_text - 1
  elseif (number + 2) % per_text ~= 0 and (kind == "notice" or characters == 0) then
    -- The last number after a text stays free for the terminal event.
    added = number + 1
  end
  if added then
    number = added
    table.insert(entries, {string.format("%s-%d", attempt, number), name, body})
  end
end
for _, entry in ipairs(entries) do
  redis.call("XADD", stream, entry[1], "event", entry[2], "body", entry[3])
end
if #entries > 0 then
  -- A stream that is written gets its time again only when half of it is over: an EXPIRE for each token would be logged
  -- and replicated with it.
  if number % per_text == per_text - 1 then
    redis.call("EXPIRE", stream, ended_ttl_s)
  elseif redis.call("TTL", stream) < ttl_s / 2 then
    redis.call("EXPIRE", stream, ttl_s)
  end
end
return "appended"
