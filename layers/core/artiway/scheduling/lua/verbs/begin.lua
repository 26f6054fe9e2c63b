--[[ begin -> the epoch whose loading was given up for this one, or "": an empty queue, to be filled and then committed. ]]
function verbs.begin(arguments, keys, queues)
  local in_force, given_up = call("GET", keys[1]), call("GET", keys[2])
  for epoch in pairs(queues) do
    if epoch ~= in_force then
      queues[epoch] = nil
    end
  end
  queues[arguments[1]] = new_queue()
  call("SET", keys[2], arguments[1])
  return given_up or ""
end
