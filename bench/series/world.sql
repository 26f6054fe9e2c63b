-- name: add_finished
-- Nodes that completed at an even rate in the days before, each with the four changes of its history.
WITH made AS (
    INSERT INTO task_node (tenant_id, node_id, task_id, user_id, position, name, type, step, lane, pool, cost_us, is_result,
                           in_degree, status, attempt, ready_at, dispatched_at, started_at, ended_at)
    SELECT ('00000000-0000-4000-8000-' || lpad((n %% %(tenants)s)::text, 12, '0'))::uuid, gen_random_uuid(), gen_random_uuid(),
           gen_random_uuid(), 0, 'n', 'cutout', 'crop', 'vip_short', 'gpu', 1000000, true, 0, 'COMPLETED', 1,
           ended_at - interval '9 s', ended_at - interval '5 s', ended_at - interval '4 s', ended_at
      FROM generate_series(1, %(nodes)s) AS n,
           LATERAL (SELECT %(until)s::timestamptz - n * make_interval(secs => %(gap_s)s) AS ended_at) AS times
    RETURNING tenant_id, node_id, ready_at, dispatched_at, started_at, ended_at
)
INSERT INTO node_history (tenant_id, node_id, version, from_status, to_status, attempt, changed_at)
SELECT tenant_id, node_id, version, from_status, to_status, attempt, changed_at
  FROM made, LATERAL (VALUES (1, 'PENDING', 'QUEUED', 0, ready_at), (2, 'QUEUED', 'QUEUED', 1, dispatched_at),
                             (3, 'QUEUED', 'PROCESSING', 1, started_at), (4, 'PROCESSING', 'COMPLETED', 1, ended_at))
             AS change (version, from_status, to_status, attempt, changed_at)
 ORDER BY changed_at;

-- name: add_waiting
WITH made AS (
    INSERT INTO task_node (tenant_id, node_id, task_id, user_id, position, name, type, step, lane, pool, cost_us, is_result,
                           in_degree, status, ready_at)
    SELECT ('00000000-0000-4000-8000-' || lpad((n %% %(tenants)s)::text, 12, '0'))::uuid, gen_random_uuid(), gen_random_uuid(),
           gen_random_uuid(), 0, 'n', 'cutout', 'crop', 'vip_short', 'gpu', 1000000, true, 0, 'QUEUED',
           %(since)s::timestamptz - interval '1 hour'
      FROM generate_series(1, %(nodes)s) AS n
    RETURNING tenant_id, node_id, ready_at
)
INSERT INTO node_history (tenant_id, node_id, version, from_status, to_status, attempt, changed_at)
SELECT tenant_id, node_id, 1, 'PENDING', 'QUEUED', 0, ready_at FROM made;
