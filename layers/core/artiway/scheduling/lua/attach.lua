#!lua flags=no-writes
--[[ attach -> "attached" | "stale": whether this epoch is in force and whole.
  KEYS     as in includes/keys.lua
  ARGV[1] epoch   ARGV[2] now_ms ]]
--@include keys
--@include pool
return read_pool() and "attached" or "stale"
