-- What the fair queue mirrors. The database is the truth; all of this can be read again at any moment. To the queue ids
-- are names, so they come as text.

-- name: tenant_policies
SELECT tenant_id::text, weight, cap, user_concurrency AS user_cap
  FROM tenant_policy
 WHERE tenant_id = ANY (%(tenant_ids)s::uuid[]);

-- name: user_caps
SELECT tenant_id::text, user_id::text, concurrency AS cap
  FROM app_user
 WHERE concurrency IS NOT NULL AND tenant_id = ANY (%(tenant_ids)s::uuid[]);

-- name: changed_tenants
-- A new tenant has no waiting node yet; its first one brings the policy.
SELECT tenant_id::text, policy.weight, policy.cap, policy.user_concurrency AS user_cap
  FROM tenant JOIN tenant_policy AS policy USING (tenant_id)
 WHERE tenant.updated_at > statement_timestamp() - make_interval(secs => %(window_s)s) AND tenant.updated_at > tenant.created_at;

-- name: changed_user_caps
SELECT tenant_id::text, user_id::text, concurrency AS cap
  FROM app_user
 WHERE concurrency_set_at > statement_timestamp() - make_interval(secs => %(window_s)s);

-- name: lanes_of_pool
SELECT lane, is_paused, parallelism, share_percent FROM lane_policy WHERE pool = %(pool)s;

-- name: model_limits
SELECT model, max_running AS most FROM model_setting;

-- name: model_loads
SELECT model, pool, count(*) FILTER (WHERE dispatched_at IS NOT NULL) AS running,
       count(*) FILTER (WHERE dispatched_at IS NULL) AS waiting
  FROM (SELECT model, pool, dispatched_at FROM task_node WHERE status = 'QUEUED' AND dispatched_at IS NULL
         UNION ALL
        SELECT model, pool, dispatched_at FROM task_node
         WHERE status IN ('QUEUED', 'PROCESSING') AND dispatched_at IS NOT NULL) AS live
 WHERE model <> ''
 GROUP BY model, pool
 ORDER BY model, pool;

-- name: lock_model
SELECT pg_advisory_xact_lock(hashtextextended('model:' || %(model)s, 0));

-- name: set_model_limit
INSERT INTO model_setting (model, max_running) VALUES (%(model)s, %(limit)s)
ON CONFLICT (model) DO UPDATE SET max_running = excluded.max_running, updated_at = clock_timestamp();

-- name: unset_model_limit
DELETE FROM model_setting WHERE model = %(model)s;

-- name: live_workers
-- A worker that shuts down reports no slots.
SELECT worker_id, pool, types, slots, engine, registered_at, beat_at, drain_at IS NOT NULL OR slots = 0 AS is_draining
  FROM worker
 WHERE beat_at > clock_timestamp() - make_interval(secs => %(silence_s)s)
 ORDER BY pool, worker_id;

-- name: nodes_of_workers
SELECT worker_id, task_id::text, tenant_id::text, name, type, attempt, started_at
  FROM task_node
 WHERE status = 'PROCESSING'
 ORDER BY started_at, node_id;

-- name: drain_worker
UPDATE worker SET drain_at = coalesce(drain_at, clock_timestamp())
 WHERE worker_id = %(worker_id)s AND beat_at > clock_timestamp() - make_interval(secs => %(silence_s)s)
RETURNING pool;

-- name: waiting_of_pool
SELECT node_id::text, tenant_id::text, user_id::text, lane, type, model, step, cost_us, priority
  FROM task_node
 WHERE pool = %(pool)s AND status = 'QUEUED' AND dispatched_at IS NULL
 ORDER BY ready_at, node_id;

-- name: waiting_page
-- A page of the waiting nodes, behind the last node of the page before. The order is that of the index.
SELECT node_id::text, tenant_id::text, user_id::text, lane, type, model, step, cost_us, priority, ready_at
  FROM task_node
 WHERE pool = %(pool)s AND status = 'QUEUED' AND dispatched_at IS NULL
   AND (lane, ready_at, node_id) > (%(lane)s, %(ready_at)s::timestamptz, %(node_id)s::uuid)
 ORDER BY lane, ready_at, node_id
 LIMIT %(limit)s;

-- name: waiting_among
-- The CASE hides the guard from the planner, which would read the index of all waiting nodes.
SELECT node_id::text FROM task_node
 WHERE node_id = ANY (%(node_ids)s::uuid[])
   AND CASE WHEN status = 'QUEUED' THEN pool = %(pool)s AND dispatched_at IS NULL END;

-- name: named_nodes
SELECT node_id::text, task_id::text, name FROM task_node WHERE node_id = ANY (%(node_ids)s::uuid[]);

-- name: count_waiting
SELECT count(*) AS waiting FROM task_node WHERE pool = %(pool)s AND status = 'QUEUED' AND dispatched_at IS NULL;

-- name: oldest_waiting
-- One search in the index of waiting nodes for each lane.
SELECT lane.pool, extract(epoch FROM clock_timestamp() - min(first.ready_at))::float8 AS age_s
  FROM lane_policy AS lane
 CROSS JOIN LATERAL (SELECT ready_at
                       FROM task_node
                      WHERE task_node.pool = lane.pool AND task_node.lane = lane.lane
                        AND task_node.status = 'QUEUED' AND task_node.dispatched_at IS NULL
                      ORDER BY ready_at
                      LIMIT 1) AS first
 GROUP BY lane.pool;

-- name: slots_of_pool
SELECT node_id::text, tenant_id::text, user_id::text, lane, type, model, step, cost_us, coalesce(charged_us, cost_us) AS charged_us
  FROM slot_in_use
 WHERE pool = %(pool)s;

-- name: backlog_of_pool
SELECT tenant_id::text, lane, type, model, step,
       (count(*) FILTER (WHERE NOT is_running))::integer AS waiting,
       coalesce(sum(cost_us) FILTER (WHERE NOT is_running), 0)::bigint AS waiting_us,
       (count(*) FILTER (WHERE is_running))::integer AS running,
       coalesce(sum(cost_us) FILTER (WHERE is_running), 0)::bigint AS running_us
  FROM (SELECT tenant_id, lane, type, model, step, cost_us, false AS is_running FROM task_node
         WHERE pool = %(pool)s AND status = 'QUEUED' AND dispatched_at IS NULL
         UNION ALL
        SELECT tenant_id, lane, type, model, step, cost_us, true FROM slot_in_use WHERE pool = %(pool)s) AS live
 GROUP BY tenant_id, lane, type, model, step;

-- name: pending_of_pool
-- Nodes that wait for their dependencies. The count stops at a limit, so that a flood does not slow submissions down.
SELECT tenant_id::text, lane, type, model, step, count(*)::integer AS waiting, sum(cost_us)::bigint AS waiting_us
  FROM (SELECT tenant_id, lane, type, model, step, cost_us FROM task_node
         WHERE status = 'PENDING' AND pool = %(pool)s AND lane IN (SELECT lane FROM lane_policy WHERE pool = %(pool)s)
         LIMIT 50000) AS pending
 GROUP BY tenant_id, lane, type, model, step;

-- name: holding
SELECT node_id::text FROM slot_in_use WHERE node_id = ANY (%(node_ids)s::uuid[]);

-- name: last_tags
-- The tag of each tenant's latest dispatch, as far back as it can still matter to those who wait now.
SELECT tenant_id::text, max(tag_us) AS tag_us
  FROM (SELECT tenant_id, tag_us FROM task_node
         WHERE pool = %(pool)s AND status IN ('QUEUED', 'PROCESSING') AND dispatched_at IS NOT NULL
         UNION ALL
        SELECT tenant_id, tag_us FROM task_node
         WHERE pool = %(pool)s AND ended_at > statement_timestamp() - make_interval(secs => %(window_s)s)) AS tagged
 WHERE tag_us IS NOT NULL
 GROUP BY tenant_id;

-- name: measured_costs
SELECT type, count(*)::integer AS samples, avg(gpu_us)::bigint AS average_us
  FROM (SELECT type, gpu_us, row_number() OVER (PARTITION BY type ORDER BY ended_at DESC) AS place
          FROM task_node
         WHERE pool = %(pool)s AND status = 'COMPLETED' AND gpu_us > 0
           AND ended_at > statement_timestamp() - make_interval(secs => %(window_s)s)) AS measured
 WHERE place <= %(samples)s
 GROUP BY type;

-- name: lane_states
-- A lane has nodes of tasks or texts, never both.
SELECT lane.lane, lane.pool, lane.is_paused, lane.parallelism, lane.share_percent, lane.depth_limit,
       (SELECT count(*) FROM task_node WHERE task_node.lane = lane.lane AND status = 'PENDING')
       + (SELECT count(*) FROM task_node WHERE task_node.pool = lane.pool AND task_node.lane = lane.lane
                                           AND status = 'QUEUED' AND dispatched_at IS NULL)
       + (SELECT count(*) FROM generation WHERE generation.lane = lane.lane AND status = 'QUEUED') AS depth,
       (SELECT count(*) FROM slot_in_use WHERE slot_in_use.lane = lane.lane AND slot_in_use.pool = lane.pool)
       + (SELECT count(*) FROM generation WHERE generation.lane = lane.lane AND status = 'RUNNING'
                                            AND lease_until > clock_timestamp()) AS running
  FROM lane_policy AS lane
 WHERE %(lane)s::text IS NULL OR lane.lane = %(lane)s
 ORDER BY lane.pool, lane.lane;

-- name: run_lane_states
-- Due runs by an index of waiting runs, the others by the counters of admissions.
SELECT lane, 'runs' AS pool, coalesce(setting.is_paused, false) AS is_paused, setting.parallelism, NULL::integer AS share_percent,
       coalesce(setting.depth_limit, %(depth_limit)s) AS depth_limit,
       coalesce(due.runs, 0) + coalesce(load.waiting, 0) AS depth, coalesce(load.running, 0) AS running
  FROM unnest(%(lanes)s::text[]) WITH ORDINALITY AS wanted (lane, place)
  LEFT JOIN lane_setting AS setting USING (lane)
  LEFT JOIN (SELECT lane, count(*) AS runs FROM job_run
              WHERE state IN ('PENDING', 'RETRYING') AND NOT is_deferred AND due_at <= clock_timestamp() GROUP BY lane) AS due
            USING (lane)
  LEFT JOIN (SELECT lane, sum(running)::bigint AS running, sum(deferred + blocked)::bigint AS waiting FROM job_load GROUP BY lane) AS load
            USING (lane)
 ORDER BY place;

-- name: add_lane
INSERT INTO lane_setting (lane) VALUES (%(lane)s) ON CONFLICT (lane) DO NOTHING;

-- name: lock_lane
SELECT lane, is_paused, parallelism, share_percent, depth_limit FROM lane_setting WHERE lane = %(lane)s FOR UPDATE;

-- name: update_lane
-- NULL is the default of the lane.
UPDATE lane_setting
   SET is_paused = %(is_paused)s, parallelism = %(parallelism)s, share_percent = %(share_percent)s,
       depth_limit = %(depth_limit)s, updated_at = clock_timestamp()
 WHERE lane = %(lane)s;

-- name: arrivals
-- What was never measured is taken to run as long as it was estimated.
SELECT node_id::text, tenant_id::text, user_id::text, lane, type, model, step, cost_us, priority, coalesce(nullif(gpu_us, 0), cost_us) AS runs_us,
       (extract(epoch FROM ready_at) * 1000000)::bigint AS at_us
  FROM task_node
 WHERE pool = %(pool)s AND ready_at > clock_timestamp() - make_interval(secs => %(window_s)s)
 ORDER BY ready_at DESC
 LIMIT %(limit)s;
