-- HTTP nodes (pool `http`), across tenants. A place is taken by an attempt that was dispatched and has not ended.

-- name: lock
-- Placements run one at a time, so that the limits are exact.
SELECT pg_advisory_xact_lock(14, 0);

-- name: count_running
SELECT count(*) AS running FROM slot_in_use WHERE pool = 'http';

-- name: waiting_tenants
-- One search in the index of waiting calls for each tenant, however many nodes it has.
WITH RECURSIVE waiting AS (
    (SELECT tenant_id FROM task_node WHERE pool = 'http' AND status = 'QUEUED' AND dispatched_at IS NULL
      ORDER BY tenant_id LIMIT 1)
     UNION ALL
    SELECT (SELECT node.tenant_id FROM task_node AS node
             WHERE node.pool = 'http' AND node.status = 'QUEUED' AND node.dispatched_at IS NULL
               AND node.tenant_id > waiting.tenant_id
             ORDER BY node.tenant_id LIMIT 1)
      FROM waiting WHERE waiting.tenant_id IS NOT NULL
), running AS (
    SELECT tenant_id, count(*)::integer AS calls FROM slot_in_use WHERE pool = 'http' GROUP BY tenant_id
)
SELECT policy.tenant_id, policy.tier, policy.status, policy.priority, policy.weight, tenant.job_concurrency,
       tenant.job_per_minute, tenant.job_period_s, coalesce(running.calls, 0) AS running
  FROM waiting
  JOIN tenant_policy AS policy ON policy.tenant_id = waiting.tenant_id
  JOIN tenant ON tenant.tenant_id = waiting.tenant_id
  LEFT JOIN running ON running.tenant_id = waiting.tenant_id
 ORDER BY policy.tenant_id;

-- name: dispatch
-- The next place goes to the tenant with the fewest for its weight, inside a tenant by priority, then to the oldest node.
WITH chosen AS MATERIALIZED (
    SELECT node.node_id
      FROM unnest(%(tenant_ids)s::uuid[], %(running)s::integer[], %(rooms)s::integer[], %(weights)s::integer[])
           AS share (tenant_id, running, room, weight)
     CROSS JOIN LATERAL (SELECT node_id, ready_at, row_number() OVER (ORDER BY rank, ready_at, node_id) AS place
                           FROM (SELECT node_id, ready_at, array_position('{HIGH,NORMAL,LOW}'::text[], priority) AS rank
                                   FROM task_node
                                  WHERE tenant_id = share.tenant_id AND pool = 'http' AND status = 'QUEUED'
                                    AND dispatched_at IS NULL
                                  ORDER BY rank, ready_at, node_id
                                  LIMIT share.room) AS first) AS node
     ORDER BY (share.running + node.place)::float8 / share.weight, node.ready_at, node.node_id
     LIMIT %(limit)s
), sent AS (
    SELECT * FROM node_dispatch(ARRAY(SELECT node_id FROM chosen),
                                ARRAY(SELECT 0::bigint FROM chosen), ARRAY(SELECT NULL::bigint FROM chosen))
)
SELECT sent.*, (SELECT trace_id FROM task WHERE task.task_id = sent.task_id::uuid) AS trace_id FROM sent ORDER BY sent.node_id;
