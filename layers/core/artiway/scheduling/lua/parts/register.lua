--[[ register: what every verb starts and ends with. The version in a function's name is that of the text: another release
finds no function of its own, loads the library anew, and so begins with a rebuild. ]]
local IS_RECORDED = {
  enqueue = true, dispatch = true, complete = true, cancel = true, reclaim = true, adopt = true,
  set_tenants = true, set_user = true, configure = true,
}

local function is_in_force(found, keys, epoch)
  return found and call("GET", keys[found.is_loading and 2 or 1]) == epoch
    and (found.texts == 0 or call("HLEN", keys[4]) == found.texts)
    -- A clock that nears the end of exact doubles counts as lost too: the rebuild starts it anew.
    and found.clock <= CLOCK_LIMIT
end

local function act(verb, arguments, keys, queues)
  local answer = verb(arguments, keys, queues)
  if queue then
    keep_places()
  end
  return answer
end

local function answer_to(name)
  local verb = verbs[name]
  return function(keys, arguments)
    if not call then
      bind()
    end
    local queues = pools[keys[1]]
    if not queues then
      queues = {}
      pools[keys[1]] = queues
    end
    local epoch = arguments[1]
    local found = queues[epoch]
    if name ~= "begin" and not is_in_force(found, keys, epoch) then
      return "stale"
    end
    queue, now_ms, places, placed, unplaced = found, tonumber(arguments[2]), keys[4], {}, {}
    local is_done, answer = pcall(act, verb, arguments, keys, queues)
    queue = nil
    if not is_done then
      if type(answer) == "table" and answer.invalid then
        return redis.error_reply(answer.invalid)
      end
      queues[epoch] = nil -- half a change is worse than none: the next caller rebuilds
      error(answer)
    end
    -- The arguments and the answer of a call are the record: replaying them on the oracle gives the same answer.
    if IS_RECORDED[name] and found.log_length > 0 and answer ~= "" then
      call("XADD", keys[3], "MAXLEN", "~", found.log_length, "*",
        "verb", name, "now", arguments[2], "in", concat(arguments, "\t", 3), "out", answer)
    end
    return answer
  end
end
