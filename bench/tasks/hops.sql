-- name: hops
-- The time of each hop of a node by the database's timestamps, so the clocks of the functions do not matter.
WITH node AS (
    SELECT n.node_id, n.created_at, n.ready_at, n.dispatched_at, n.started_at, n.ended_at,
           (SELECT max(before.ended_at)
              FROM node_dependency AS edge JOIN task_node AS before ON before.node_id = edge.depends_on_id
             WHERE edge.node_id = n.node_id) AS dependencies_at
      FROM task_node AS n
     WHERE n.created_at > %(since)s
), hop AS (
    SELECT 1 AS place, 'submitted -> entry node ready' AS name, ready_at - created_at AS took FROM node WHERE dependencies_at IS NULL
     UNION ALL
    SELECT 2, 'last dependency ended -> ready', ready_at - dependencies_at FROM node WHERE dependencies_at IS NOT NULL
     UNION ALL
    SELECT 3, 'ready -> dispatched (waits for a slot)', dispatched_at - ready_at FROM node
     UNION ALL
    SELECT 4, 'dispatched -> claimed', started_at - dispatched_at FROM node
     UNION ALL
    SELECT 5, 'claimed -> ended', ended_at - started_at FROM node
)
SELECT place, name, count(*) AS nodes,
       (extract(epoch FROM percentile_cont(0.5) WITHIN GROUP (ORDER BY took)) * 1000)::float8 AS p50_ms,
       (extract(epoch FROM percentile_cont(0.95) WITHIN GROUP (ORDER BY took)) * 1000)::float8 AS p95_ms
  FROM hop
 WHERE took IS NOT NULL
 GROUP BY place, name
 ORDER BY place;

-- name: live
SELECT count(*) AS live FROM task WHERE ended_at IS NULL;
