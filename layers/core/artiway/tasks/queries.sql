-- Every change of a node is one UPDATE guarded by id and status, and after dispatch also by the attempt.
-- If no row changes, the change was made before: acknowledge and continue. A trigger writes the history and refuses illegal
-- transitions.

-- name: tenant_limits
SELECT tier, status, weight, concurrency, queue_depth, artefact_days FROM tenant_policy WHERE tenant_id = current_tenant();

-- name: lock_submissions
-- Submissions of a tenant run one at a time, so that no other one changes the counted depth.
SELECT pg_advisory_xact_lock(3, hashtext(current_tenant()::text));

-- name: count_live_tasks
SELECT count(*) AS live FROM task WHERE tenant_id = current_tenant() AND ended_at IS NULL;

-- name: count_recent_ends
SELECT count(*) AS ended
  FROM task
 WHERE tenant_id = current_tenant() AND ended_at > statement_timestamp() - make_interval(secs => %(window_s)s);

-- name: insert_task
INSERT INTO task (tenant_id, task_id, user_id, tool, name, hold_id, lane, pool, params, price_points, webhook_url)
VALUES (current_tenant(), %(task_id)s, %(user_id)s, %(tool)s, %(name)s, %(hold_id)s, %(lane)s, %(pool)s, %(params)s,
        %(price_points)s, %(webhook_url)s);

-- name: insert_nodes
INSERT INTO task_node (tenant_id, node_id, task_id, user_id, position, name, type, step, model, lane, pool, params, inputs,
                       cost_us, price_points, is_result, in_degree)
SELECT current_tenant(), node_id, %(task_id)s, %(user_id)s, position, name, type, step, model, %(lane)s, %(pool)s, params,
       inputs, cost_us, price_points, is_result, in_degree
  FROM jsonb_to_recordset(%(nodes)s) AS node (node_id uuid, position integer, name text, type text, step text, model text,
       params jsonb, inputs jsonb, cost_us bigint, price_points bigint, is_result boolean, in_degree integer);

-- name: insert_dependencies
INSERT INTO node_dependency (tenant_id, node_id, depends_on_id)
SELECT current_tenant(), edge.node_id, edge.depends_on_id
  FROM unnest(%(node_ids)s::uuid[], %(depends_on_ids)s::uuid[]) AS edge (node_id, depends_on_id);

-- name: task
SELECT tenant_id, task_id, user_id, tool, name, status, run, hold_id, lane, pool, price_points, charged_points, webhook_url,
       event_sequence, error, created_at, started_at, ended_at, cancel_requested_at
  FROM task
 WHERE task_id = %(task_id)s;

-- name: lock_task
-- Taken before any node of the task changes. So the ends of two nodes see each other, and transactions do not deadlock.
SELECT tenant_id, task_id, user_id, tool, name, status, run, hold_id, lane, pool, price_points, charged_points, webhook_url,
       event_sequence, error, created_at, started_at, ended_at, cancel_requested_at
  FROM task
 WHERE task_id = %(task_id)s
   FOR UPDATE;

-- name: tasks_page
SELECT tenant_id, task_id, user_id, tool, name, status, run, hold_id, lane, pool, price_points, charged_points, webhook_url,
       event_sequence, error, created_at, started_at, ended_at, cancel_requested_at
  FROM task
 WHERE tenant_id = current_tenant()
   AND (%(before)s::uuid IS NULL OR task_id < %(before)s)
   AND (%(user_id)s::uuid IS NULL OR user_id = %(user_id)s)
   AND (%(status)s::text IS NULL OR status = %(status)s)
   AND (%(tool)s::text IS NULL OR tool = %(tool)s)
   AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s)
   AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s)
 ORDER BY task_id DESC
 LIMIT %(limit)s;

-- name: progress_of_tasks
SELECT task_id, (sum(cost_us * CASE WHEN status = 'COMPLETED' THEN 100 ELSE progress END) / sum(cost_us))::integer AS progress
  FROM task_node
 WHERE task_id = ANY (%(task_ids)s::uuid[]) AND superseded_at IS NULL
 GROUP BY task_id;

-- name: nodes_of_task
SELECT tenant_id, node_id, task_id, user_id, position, name, type, step, model, lane, pool, params, inputs, cost_us, price_points,
       is_result, is_charged, status, version, attempt, failures, in_degree, progress, gpu_us, output, engine, error, worker_id
  FROM task_node
 WHERE task_id = %(task_id)s AND superseded_at IS NULL
 ORDER BY position, node_id;

-- name: node
SELECT tenant_id, node_id, task_id, user_id, position, name, type, step, model, lane, pool, params, inputs, cost_us, price_points,
       is_result, is_charged, status, version, attempt, failures, in_degree, progress, gpu_us, output, engine, error, worker_id
  FROM task_node
 WHERE node_id = %(node_id)s;

-- name: node_ids_of_task
SELECT node_id FROM task_node WHERE task_id = %(task_id)s AND superseded_at IS NULL;

-- name: dependencies_of_nodes
-- A list instead of a join. Until the next ANALYZE the planner expects no row of a new tenant, so a nested loop may scan all
-- rows of the tenant again and again. One scan of one table reads each row at most once.
SELECT node_id, depends_on_id FROM node_dependency WHERE node_id = ANY (%(node_ids)s::uuid[]);

-- name: mark_ready
-- The caps of users are read here and not in the function, which the release before uses too.
SELECT ready.*,
       (SELECT user_concurrency FROM tenant WHERE tenant.tenant_id = ready.tenant_id::uuid) AS user_cap,
       (SELECT concurrency FROM app_user
         WHERE app_user.tenant_id = ready.tenant_id::uuid AND app_user.user_id = ready.user_id::uuid) AS own_cap
  FROM node_mark_ready(%(node_ids)s::uuid[]) AS ready;

-- name: waiting_nodes
-- The columns of `mark_ready` for nodes that wait already. As there, a CASE here and in `renew` hides the guard from the
-- planner.
SELECT node_id::text, tenant_id::text, user_id::text, pool, lane, type, model, cost_us, policy.weight, policy.cap,
       policy.user_concurrency AS user_cap,
       (SELECT concurrency FROM app_user
         WHERE app_user.tenant_id = task_node.tenant_id AND app_user.user_id = task_node.user_id) AS own_cap
  FROM task_node JOIN tenant_policy AS policy USING (tenant_id)
 WHERE node_id = ANY (%(node_ids)s::uuid[]) AND CASE WHEN dispatched_at IS NULL THEN task_node.status = 'QUEUED' END
 ORDER BY ready_at, node_id;

-- name: dispatch
SELECT * FROM node_dispatch(%(node_ids)s::uuid[], %(charges_us)s::bigint[], %(tags_us)s::bigint[]);

-- name: claim
-- The first claim of a task starts it. `outputs` are the pictures of the nodes that this node takes as inputs.
WITH claimed AS (
    UPDATE task_node
       SET status = 'PROCESSING', version = version + 1, worker_id = %(worker_id)s, started_at = clock_timestamp(), progress = 0,
           lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s), progress_at = clock_timestamp(), error = NULL
     WHERE node_id = %(node_id)s AND status = 'QUEUED' AND dispatched_at IS NOT NULL AND attempt = %(attempt)s
    RETURNING tenant_id, node_id, task_id, user_id, position, name, type, step, model, lane, pool, params, inputs, cost_us,
              price_points, is_result, is_charged, status, version, attempt, failures, in_degree, progress, gpu_us, output,
              engine, error, worker_id
), started AS (
    UPDATE task SET status = 'PROCESSING', started_at = coalesce(started_at, clock_timestamp())
     WHERE task_id = (SELECT task_id FROM claimed) AND status = 'QUEUED'
)
SELECT claimed.*,
       (SELECT json_object_agg(source.name, source.output)
          FROM task_node AS source
         WHERE source.task_id = claimed.task_id AND source.superseded_at IS NULL
           AND source.name IN (SELECT input ->> 'node' FROM jsonb_array_elements(claimed.inputs) AS input)) AS outputs
  FROM claimed;

-- name: claimed_before
-- A worker that lost the answer to its claim repeats the claim and gets the same answer.
SELECT tenant_id, node_id, task_id, user_id, position, name, type, step, model, lane, pool, params, inputs, cost_us, price_points,
       is_result, is_charged, status, version, attempt, failures, in_degree, progress, gpu_us, output, engine, error, worker_id,
       (SELECT json_object_agg(source.name, source.output)
          FROM task_node AS source
         WHERE source.task_id = node.task_id AND source.superseded_at IS NULL
           AND source.name IN (SELECT input ->> 'node' FROM jsonb_array_elements(node.inputs) AS input)) AS outputs
  FROM task_node AS node
 WHERE node_id = %(node_id)s AND status = 'PROCESSING' AND attempt = %(attempt)s AND worker_id = %(worker_id)s;

-- name: renew
UPDATE task_node AS node
   SET lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
  FROM unnest(%(node_ids)s::uuid[], %(attempts)s::integer[]) AS held (node_id, attempt)
 WHERE node.node_id = ANY (%(node_ids)s::uuid[]) AND node.node_id = held.node_id AND node.attempt = held.attempt
   AND CASE WHEN node.worker_id = %(worker_id)s THEN node.status = 'PROCESSING' END
RETURNING node.node_id;

-- name: cancelled_of
SELECT node.node_id
  FROM task_node AS node
  JOIN unnest(%(node_ids)s::uuid[], %(attempts)s::integer[]) AS held (node_id, attempt)
    ON held.node_id = node.node_id AND held.attempt = node.attempt
 WHERE node.status = 'CANCELLED';

-- name: tasks_of_nodes
SELECT node_id, tenant_id, task_id FROM task_node WHERE node_id = ANY (%(node_ids)s::uuid[]);

-- name: finish
SELECT name, pool, is_leaf, ready, answers
  FROM node_finish(%(task_id)s, %(node_id)s, %(attempt)s, %(output)s, %(engine)s, %(gpu_us)s, %(artefacts)s::json);

-- name: fail
UPDATE task_node
   SET status = 'FAILED', version = version + 1, error = %(error)s, failures = failures + 1, gpu_us = %(gpu_us)s,
       lease_until = NULL, ended_at = clock_timestamp()
 WHERE node_id = %(node_id)s AND status = 'PROCESSING' AND attempt = %(attempt)s;

-- name: time_out_lease
-- The lease is checked again under the row lock: a heartbeat may have renewed it.
UPDATE task_node
   SET status = 'TIMEOUT', version = version + 1, error = %(error)s, failures = failures + 1, lease_until = NULL,
       ended_at = clock_timestamp()
 WHERE node_id = %(node_id)s AND status = 'PROCESSING' AND attempt = %(attempt)s AND lease_until < clock_timestamp();

-- name: time_out_running
UPDATE task_node
   SET status = 'TIMEOUT', version = version + 1, error = %(error)s, failures = failures + 1, lease_until = NULL,
       ended_at = clock_timestamp()
 WHERE node_id = %(node_id)s AND status = 'PROCESSING' AND attempt = %(attempt)s;

-- name: time_out_unclaimed
-- No worker claimed the node for long, so it returns its slot. That does not count as a failure of the node.
UPDATE task_node
   SET status = 'TIMEOUT', version = version + 1, error = %(error)s, ended_at = clock_timestamp()
 WHERE node_id = %(node_id)s AND status = 'QUEUED' AND dispatched_at IS NOT NULL AND attempt = %(attempt)s;

-- name: hand_back
-- The worker shuts down. That does not count as a failure of the node.
UPDATE task_node
   SET status = 'TIMEOUT', version = version + 1, error = %(error)s, lease_until = NULL, ended_at = clock_timestamp()
 WHERE node_id = %(node_id)s AND status = 'PROCESSING' AND attempt = %(attempt)s AND worker_id = %(worker_id)s;

-- name: retry
UPDATE task_node
   SET status = 'PENDING', version = version + 1, not_before = clock_timestamp() + make_interval(secs => %(delay_s)s),
       ready_at = NULL, dispatched_at = NULL, charged_us = NULL, tag_us = NULL, hinted_at = NULL, worker_id = NULL,
       progress = 0, ended_at = NULL
 WHERE node_id = %(node_id)s AND status IN ('FAILED', 'TIMEOUT') AND attempt = %(attempt)s;

-- name: cancel_nodes
UPDATE task_node
   SET status = 'CANCELLED', version = version + 1, error = %(error)s, lease_until = NULL, ended_at = clock_timestamp()
 WHERE task_id = %(task_id)s AND superseded_at IS NULL AND status IN ('PENDING', 'QUEUED', 'PROCESSING')
RETURNING node_id, name, attempt;

-- name: cancel_dependents
UPDATE task_node
   SET status = 'CANCELLED', version = version + 1, error = %(error)s, ended_at = clock_timestamp()
 WHERE node_id = ANY (%(node_ids)s::uuid[]) AND status IN ('PENDING', 'QUEUED') AND superseded_at IS NULL
RETURNING node_id, name, attempt;

-- name: note_progress
-- At most once per interval for each node, for any number of messages.
UPDATE task_node
   SET progress = %(progress)s, progress_at = clock_timestamp()
 WHERE node_id = %(node_id)s AND status = 'PROCESSING' AND attempt = %(attempt)s AND progress < %(progress)s
   AND progress_at <= clock_timestamp() - make_interval(secs => %(interval_s)s);

-- name: is_running
SELECT 1 FROM task_node WHERE node_id = %(node_id)s AND status = 'PROCESSING' AND attempt = %(attempt)s;

-- name: request_cancel
UPDATE task SET cancel_requested_at = clock_timestamp() WHERE task_id = %(task_id)s AND cancel_requested_at IS NULL;

-- name: charge_nodes
UPDATE task_node SET is_charged = true
 WHERE task_id = %(task_id)s AND status = 'COMPLETED' AND price_points > 0 AND NOT is_charged
RETURNING price_points;

-- name: end_task
UPDATE task
   SET status = %(status)s, ended_at = clock_timestamp(), charged_points = charged_points + %(charged)s, error = %(error)s
 WHERE task_id = %(task_id)s AND ended_at IS NULL;

-- name: begin_run
UPDATE task
   SET status = 'QUEUED', run = run + 1, hold_id = %(hold_id)s, ended_at = NULL, error = NULL,
       execution_asked_at = clock_timestamp()
 WHERE task_id = %(task_id)s AND status IN ('FAILED', 'PARTIAL');

-- name: reset_failures
-- A retry by the user resets the count of failures.
UPDATE task_node SET failures = 0 WHERE task_id = %(task_id)s AND status = 'PENDING';

-- name: supersede
UPDATE task_node SET superseded_at = clock_timestamp()
 WHERE node_id = ANY (%(node_ids)s::uuid[]) AND status = 'CANCELLED' AND superseded_at IS NULL;

-- name: keep_tokens
SELECT tenant_id, node_id, token, status FROM token_keep(%(tokens)s::json);

-- name: take_answerable_tokens
SELECT tenant_id, node_id, token, status FROM token_take(%(node_ids)s::uuid[]);

-- name: publish
SELECT outbox_id, is_due FROM task_publish(%(events)s::json, %(messages)s::json, %(trace_id)s);

-- name: has_listener
-- Sockets of the user, and sockets that receive the events of the whole tenant.
SELECT EXISTS (SELECT FROM websocket_connection
                WHERE tenant_id = current_tenant() AND user_id = %(user_id)s AND closed_at IS NULL
                  AND expires_at > clock_timestamp())
    OR EXISTS (SELECT FROM websocket_connection
                WHERE tenant_id = current_tenant() AND scope = 'tenant' AND closed_at IS NULL
                  AND expires_at > clock_timestamp()) AS has_listener;

-- name: events_after
SELECT sequence, event, body FROM task_event WHERE task_id = %(task_id)s AND sequence > %(sequence)s ORDER BY sequence LIMIT %(limit)s;

-- name: lane_load
-- The waiting nodes of all tenants in the lane; the count stops above the limit. statement_timestamp() is constant during the
-- statement and can use the index; with clock_timestamp() the statement would read every ended node.
SELECT lane.lane, lane.pool, lane.is_paused, lane.depth_limit,
       (SELECT count(*)
          FROM (SELECT FROM task_node WHERE task_node.lane = lane.lane AND status = 'PENDING'
                 UNION ALL
                SELECT FROM task_node
                 WHERE task_node.pool = lane.pool AND task_node.lane = lane.lane AND status = 'QUEUED' AND dispatched_at IS NULL
                 LIMIT lane.depth_limit + 1) AS waiting) AS depth,
       (SELECT coalesce(sum(cost_us), 0)
          FROM (SELECT cost_us FROM task_node WHERE task_node.pool = lane.pool AND status = 'QUEUED' AND dispatched_at IS NULL
                 LIMIT 20000) AS waiting)::bigint AS waiting_us,
       (SELECT count(*) FROM (SELECT FROM task_node WHERE task_node.pool = lane.pool AND ended_at > statement_timestamp() - interval '5 minutes'
                 LIMIT 20000) AS ended) AS ended_lately,
       (SELECT coalesce(sum(slots), 0) FROM worker
         WHERE worker.pool = lane.pool AND drain_at IS NULL AND beat_at > clock_timestamp() - interval '30 seconds')::bigint AS slots
  FROM lane_policy AS lane
 WHERE lane.lane = %(lane)s;

-- name: register_worker
INSERT INTO worker (worker_id, pool, types, slots, engine)
VALUES (%(worker_id)s, %(pool)s, %(types)s, %(slots)s, %(engine)s)
ON CONFLICT (worker_id) DO UPDATE
   SET pool = excluded.pool, types = excluded.types, slots = excluded.slots, engine = excluded.engine, beat_at = clock_timestamp();

-- name: beat_worker
INSERT INTO worker (worker_id, pool, types, slots)
VALUES (%(worker_id)s, %(pool)s, %(types)s, %(slots)s)
ON CONFLICT (worker_id) DO UPDATE
   SET pool = excluded.pool, types = excluded.types, slots = excluded.slots, beat_at = clock_timestamp()
RETURNING drain_at IS NOT NULL AS is_draining;

-- name: delete_worker
DELETE FROM worker WHERE worker_id = %(worker_id)s;
