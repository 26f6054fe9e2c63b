--[[ commit -> the epoch that was in force before, or "": what was loaded becomes the queue, in one step. ]]
function verbs.commit(arguments, keys, queues)
  local old = call("GET", keys[1])
  for epoch in pairs(queues) do
    if epoch ~= arguments[1] then
      queues[epoch] = nil
    end
  end
  call("RENAME", keys[2], keys[1])
  queue.is_loading = false
  return old or ""
end
