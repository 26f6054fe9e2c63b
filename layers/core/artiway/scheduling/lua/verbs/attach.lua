--[[ attach -> "attached" | "stale": whether this epoch is in force, and in this memory. ]]
function verbs.attach()
  return "attached"
end
