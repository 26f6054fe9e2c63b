--[[ arguments: scripts are not rolled back, so every line is checked before the first write. ]]
local POLICY = "^[^|]+|%d+|%d*|%d*$"
local WEIGHT = "^[^|]+|0*[1-9]%d*|"

local function check(lines, pattern, what)
  for line in string.gmatch(lines, "[^\n]+") do
    if not string.match(line, pattern) then
      error({ err = "INVALID " .. what .. ": " .. line })
    end
  end
end

local function check_number(text, what)
  local number = tonumber(text)
  if not number or number < 0 or number ~= math.floor(number) then
    error({ err = "INVALID " .. what .. ": " .. tostring(text) })
  end
  return number
end
