--[[ dispatch -> lines node|tenant|user|type|lane|model|cost|charged|tag: take up to `limit` nodes that may run.
  ARGV[3] limit
  ARGV[4] lease_ms  a node that is not confirmed by then comes back (reclaim)
  ARGV[5] warm      lines of models that idle workers have loaded ]]
function verbs.dispatch(arguments)
  local limit, lease_ms = check_number(arguments[3], "limit"), check_number(arguments[4], "lease_ms")
  return dispatch(limit, lease_ms, words(arguments[5]))
end
