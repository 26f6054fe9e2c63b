--[[ arguments: a script is not rolled back, so every argument is checked before the first write. ]]
local POLICY = "^([^|\n]+)|(0*[1-9]%d*)|(%d*)|(%d*)"
local NODE = "^([^|\n]+)|([^|\n]+)|([^|\n]+)|([^|\n]+|[^|\n]+|[^|\n]*)|(%d+)|([012])"

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
