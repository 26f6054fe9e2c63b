--[[ arguments: a script is not rolled back, so every argument is checked before the first write. ]]
local POLICY = "^([^|\n]+)|(0*[1-9]%d*)|(%d*)|(%d*)"
local NODE = "^([^|\n]+)|([^|\n]+)|([^|\n]+)|([^|\n]+|[^|\n]+|[^|\n]*|[^|\n]*)|(%d+)|([012])"

local function invalid(what, text)
  error({ err = "INVALID " .. what .. ": " .. tostring(text) })
end

local function check_number(text, what)
  local number = tonumber(text)
  if not number or number < 0 or number ~= floor(number) then
    invalid(what, text)
  end
  return number
end

-- Lines that are ids.
local function check_ids(text)
  local ids = {}
  if find(text, "|", 1, true) then
    invalid("node", text)
  end
  for id in gmatch(text, "[^\n]+") do
    ids[#ids + 1] = id
  end
  return ids
end

-- Lines id|number, where the number may be missing: ids and numbers, each a list.
local function check_pairs(text, what)
  local ids, numbers, at, length, count = {}, {}, 1, #text, 0
  while at <= length do
    local from, to, id, number = find(text, "^([^|\n]+)|(%d*)\n?", at)
    if not from or (to < length and string.byte(text, to) ~= 10) then
      invalid(what, sub(text, at, at + 200))
    end
    count = count + 1
    ids[count], numbers[count], at = id, number, to + 1
  end
  return ids, numbers
end

-- Answers the rows of a text whose lines have to match a pattern: one table of captures for each line.
local function check_lines(text, pattern, what)
  local rows, at, length = {}, 1, #text
  while at <= length do
    local from, to, a, b, c, d, e, f, g, h = find(text, pattern, at)
    local follows = to and string.byte(text, to + 1)
    if not from or (follows and follows ~= 10) then
      invalid(what, sub(text, at, at + 200))
    end
    rows[#rows + 1] = { a, b, c, d, e, f, g, h }
    at = to + 2
  end
  return rows
end
