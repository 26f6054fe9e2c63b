--[[ arguments: nothing is rolled back, so every line is checked before the first change. ]]
local POLICY = "^[^|]+|0*[1-9]%d*|%d*|%d*$"
local NODE = "^([^|\n]+)|([^|\n]+)|([^|\n]+)|([^|\n]+|[^|\n]+|[^|\n]*)|(%d+)"

local function invalid(what, text)
  error({ invalid = "INVALID " .. what .. ": " .. tostring(text) })
end

local function check(lines, pattern, what)
  for line in gmatch(lines, "[^\n]+") do
    if not match(line, pattern) then
      invalid(what, line)
    end
  end
end

local function check_number(text, what)
  local number = tonumber(text)
  if not number or number < 0 or number ~= floor(number) then
    invalid(what, text)
  end
  return number
end

-- Line for line from where the last match ended: no line becomes a string of its own.
local function line_after(text, at, pattern, what)
  local from, to, a, b, c, d, e, f, g = find(text, pattern, at)
  local follows = to and string.byte(text, to + 1)
  if not from or (follows and follows ~= 10) then
    invalid(what, string.sub(text, at, at + 200))
  end
  return to + 2, a, b, c, d, e, f, g
end
