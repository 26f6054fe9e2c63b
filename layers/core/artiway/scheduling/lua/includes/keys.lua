--[[ keys: names of the fixed keys, of the derived ones, and what every script uses. All share KEYS[1]'s hash tag. ]]
local EPOCH, LOADING, POOL, TENANTS, WHERE, RUNNING, LEASES, USER_RUNNING, USER_CAPS, DECISIONS = unpack(KEYS)
local PREFIX = string.sub(POOL, 1, -5) -- without "pool"
local call, format, match, gmatch, find, sub = redis.call, string.format, string.match, string.gmatch, string.find, string.sub
local max, min, floor, ceil, concat = math.max, math.min, math.floor, math.ceil, table.concat
local now_ms = tonumber(ARGV[2])

local UNLIMITED = 1 / 0
local ARGUMENTS = 4000 -- of one command: Lua's stack has room for 8,000
local NODE_RANK = 1e13 -- score of a node: priority rank * NODE_RANK + arrival
local USER_RANK = 2e15 -- score of a user: priority rank * USER_RANK + tag on the users' clock
local USER_CLOCK_LIMIT = 1e15
local CLOCK_LIMIT = 4503599627370496
local TRACK_LIMIT = 256
local SAMPLES_BEFORE_AVERAGE = 20
local DECISIONS_KEPT = 1000
local SERVICE_KEPT_S = 7800

local function heads_key(index)
  return PREFIX .. "heads:" .. index
end

local function work_key(index)
  return PREFIX .. "work:" .. index
end

local function users_key(index, tenant_id)
  return PREFIX .. "users:" .. index .. "|" .. tenant_id
end

local function nodes_key(index, tenant_id, user)
  return PREFIX .. "nodes:" .. index .. "|" .. tenant_id .. "|" .. user
end

local function held_key(tenant_id)
  return PREFIX .. "held:" .. tenant_id
end

-- Members sort by their number where scores are equal, and end with a name.
local function numbered(number, name)
  return format("%013d|%s", number, name)
end

-- One command for a whole batch, or several where it is long. `arguments` are pairs, or single ones.
local function call_with(command, key, arguments)
  for from = 1, #arguments, ARGUMENTS do
    call(command, key, unpack(arguments, from, min(from + ARGUMENTS - 1, #arguments)))
  end
end

local function read_with(command, key, arguments)
  if #arguments <= ARGUMENTS then
    return arguments[1] and call(command, key, unpack(arguments)) or {}
  end
  local found = {}
  for from = 1, #arguments, ARGUMENTS do
    for _, value in ipairs(call(command, key, unpack(arguments, from, min(from + ARGUMENTS - 1, #arguments)))) do
      found[#found + 1] = value
    end
  end
  return found
end

local function is_in_force()
  return call("GET", EPOCH) == ARGV[1] or call("GET", LOADING) == ARGV[1]
end
