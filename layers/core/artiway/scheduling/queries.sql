-- What the fair queue mirrors. The database is the truth; all of this can be read again at any moment. To the queue ids
-- are names, so they come as text.

-- name: tenant_policies
SELECT tenant_id::text, weight, cap FROM tenant_policy WHERE tenant_id = ANY (%(tenant_ids)s::uuid[]);

-- name: lanes_of_pool
SELECT lane, is_paused, parallelism, share_percent FROM lane_policy WHERE pool = %(pool)s;

-- name: live_workers
SELECT worker_id, pool, types, slots, engine, registered_at, beat_at
  FROM worker
 WHERE beat_at > clock_timestamp() - make_interval(secs => %(silence_s)s)
 ORDER BY pool, worker_id;

-- name: waiting_of_pool
SELECT node_id::text, tenant_id::text, user_id::text, lane, type, model, cost_us, priority
  FROM task_node
 WHERE pool = %(pool)s AND status = 'QUEUED' AND dispatched_at IS NULL
 ORDER BY ready_at, node_id;

-- name: count_waiting
SELECT count(*) AS waiting FROM task_node WHERE pool = %(pool)s AND status = 'QUEUED' AND dispatched_at IS NULL;

-- name: slots_of_pool
SELECT node_id::text, tenant_id::text, user_id::text, lane, type, model, cost_us, coalesce(charged_us, cost_us) AS charged_us
  FROM slot_in_use
 WHERE pool = %(pool)s;

-- name: backlog_of_pool
SELECT tenant_id::text, lane, type, model,
       (count(*) FILTER (WHERE NOT is_running))::integer AS waiting,
       coalesce(sum(cost_us) FILTER (WHERE NOT is_running), 0)::bigint AS waiting_us,
       (count(*) FILTER (WHERE is_running))::integer AS running,
       coalesce(sum(cost_us) FILTER (WHERE is_running), 0)::bigint AS running_us
  FROM (SELECT tenant_id, lane, type, model, cost_us, false AS is_running FROM task_node
         WHERE pool = %(pool)s AND status = 'QUEUED' AND dispatched_at IS NULL
         UNION ALL
        SELECT tenant_id, lane, type, model, cost_us, true FROM slot_in_use WHERE pool = %(pool)s) AS live
 GROUP BY tenant_id, lane, type, model;

-- name: pending_of_pool
-- Nodes that wait for their dependencies. The count stops at a limit, so that a flood does not slow submissions down.
SELECT tenant_id::text, lane, type, model, count(*)::integer AS waiting, sum(cost_us)::bigint AS waiting_us
  FROM (SELECT tenant_id, lane, type, model, cost_us FROM task_node
         WHERE status = 'PENDING' AND lane IN (SELECT lane FROM lane_policy WHERE pool = %(pool)s)
         LIMIT 50000) AS pending
 GROUP BY tenant_id, lane, type, model;

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
SELECT lane.lane, lane.pool, lane.is_paused, lane.parallelism, lane.share_percent, lane.depth_limit,
       (SELECT count(*) FROM task_node WHERE task_node.lane = lane.lane AND status = 'PENDING')
       + (SELECT count(*) FROM task_node WHERE task_node.pool = lane.pool AND task_node.lane = lane.lane
                                           AND status = 'QUEUED' AND dispatched_at IS NULL) AS depth,
       (SELECT count(*) FROM slot_in_use WHERE slot_in_use.lane = lane.lane) AS running
  FROM lane_policy AS lane
 WHERE %(lane)s::text IS NULL OR lane.lane = %(lane)s
 ORDER BY lane.pool, lane.lane;

-- name: set_lane
-- What is not named stays as it is: a paused lane stays paused when its parallelism is changed.
INSERT INTO lane_setting (lane, is_paused, parallelism, share_percent, depth_limit)
VALUES (%(lane)s, coalesce(%(is_paused)s, false), %(parallelism)s, %(share_percent)s, %(depth_limit)s)
ON CONFLICT (lane) DO UPDATE
   SET is_paused = coalesce(%(is_paused)s, lane_setting.is_paused),
       parallelism = coalesce(%(parallelism)s, lane_setting.parallelism),
       share_percent = coalesce(%(share_percent)s, lane_setting.share_percent),
       depth_limit = coalesce(%(depth_limit)s, lane_setting.depth_limit),
       updated_at = clock_timestamp();

-- name: arrivals
-- What was never measured is taken to run as long as it was estimated.
SELECT node_id::text, tenant_id::text, user_id::text, lane, type, model, cost_us, priority, coalesce(nullif(gpu_us, 0), cost_us) AS runs_us,
       (extract(epoch FROM ready_at) * 1000000)::bigint AS at_us
  FROM task_node
 WHERE pool = %(pool)s AND ready_at > clock_timestamp() - make_interval(secs => %(window_s)s)
 ORDER BY ready_at DESC
 LIMIT %(limit)s;
