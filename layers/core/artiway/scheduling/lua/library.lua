#!lua name=artiway_queue
--[[ The fair queue: a library of functions that live in Redis, with the queue itself in their memory.

The queue is a copy of what PostgreSQL knows, so it may be lost at any moment: whoever finds it gone rebuilds it. That
lets it be plain tables, read and changed at the speed of Lua. Kept in keys, each node would cost some ten commands and
as many strings to parse, six times what it costs here. What has to outlive a call, be seen by others, or would be large
are keys:

  KEYS[1] epoch    string: the epoch that is in force. No such key, or another epoch: nobody may touch this queue
  KEYS[2] loading  string: the epoch that is being filled
  KEYS[3] log      stream of decisions, bounded
  KEYS[4] places   hash: node -> tenant|user|track|chunk, of the nodes that wait as text
  ARGV[1] epoch    of the caller; a queue that is not in force, or not in this memory, answers "stale"
  ARGV[2] now_ms   from the caller's clock
  ARGV[3…]         the verb's own

A flush takes the epoch away, a restart or a failover the memory, whoever deletes keys the places: the next call notices,
whatever it is. ]]
--@include parts/state
--@include parts/arguments
--@include parts/heap
--@include parts/contest
--@include parts/tracks
--@include parts/tails
--@include parts/crowds
--@include parts/slots
--@include parts/choose
--@include parts/policy
--@verbs
--@include parts/register
--@register
