--[[ pool -> lines field|value: clock, steps, loaded, texts, switches, costs, of each track its name (k:) and "lag running waiting" (d:). ]]
function verbs.pool()
  local lines = { "clock|" .. int(queue.clock), "steps|" .. int(queue.steps), "loaded|" .. int(queue.loaded),
    "texts|" .. int(queue.texts), "capacity|" .. optional(queue.capacity) }
  for kind, name in pairs({ s = "slots", p = "paused", n = "parallelism", h = "share", m = "models" }) do
    for of, value in pairs(queue[name]) do
      lines[#lines + 1] = format("%s:%s|%d", kind, of, value)
    end
  end
  for kind, known in pairs(queue.costs) do
    lines[#lines + 1] = format("c:%s|%d %d", kind, known.samples, known.average)
  end
  for index, track in ipairs(queue.tracks) do
    lines[#lines + 1] = format("k:%d|%s", index, track.name)
    lines[#lines + 1] = format("d:%d|%d %d %d", index, lag_of(track), track.running, track.waiting)
  end
  return concat(lines, "\n")
end
