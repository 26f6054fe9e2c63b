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
INSERT INTO task (tenant_id, task_id, user_id, tool, name, hold_id, lane, pool, priority, params, price_points, webhook_url,
                  eta_s, eta_model_s, trace_id, submission_key, is_draft, request, on_failure)
VALUES (current_tenant(), %(task_id)s, %(user_id)s, %(tool)s, %(name)s, %(hold_id)s, %(lane)s, %(pool)s, %(priority)s, %(params)s,
        %(price_points)s, %(webhook_url)s, %(eta_s)s, %(eta_model_s)s, %(trace_id)s, %(submission_key)s, %(is_draft)s,
        %(request)s, %(on_failure)s)
RETURNING tenant_id, task_id, user_id, tool, name, status, run, hold_id, lane, pool, priority, price_points, charged_points,
          webhook_url, event_sequence, error, created_at, started_at, ended_at, cancel_requested_at, trace_id, submission_key, is_draft,
          on_failure;

-- name: task_with_key
SELECT tenant_id, task_id, user_id, tool, name, status, run, hold_id, lane, pool, priority, price_points, charged_points,
       webhook_url, event_sequence, error, created_at, started_at, ended_at, cancel_requested_at, trace_id, submission_key, is_draft,
       on_failure
  FROM task WHERE tenant_id = current_tenant() AND submission_key = %(submission_key)s;

-- name: insert_nodes
INSERT INTO task_node (tenant_id, node_id, task_id, user_id, position, name, type, step, model, lane, pool, priority, params,
                       inputs, cost_us, price_points, is_result, in_degree)
SELECT current_tenant(), node_id, %(task_id)s, %(user_id)s, position, name, type, step, model, %(lane)s, pool, %(priority)s,
       params, inputs, cost_us, price_points, is_result, in_degree
  FROM jsonb_to_recordset(%(nodes)s) AS node (node_id uuid, position integer, name text, type text, step text, model text,
       pool text, params jsonb, inputs jsonb, cost_us bigint, price_points bigint, is_result boolean, in_degree integer);

-- name: insert_dependencies
INSERT INTO node_dependency (tenant_id, node_id, depends_on_id)
SELECT current_tenant(), edge.node_id, edge.depends_on_id
  FROM unnest(%(node_ids)s::uuid[], %(depends_on_ids)s::uuid[]) AS edge (node_id, depends_on_id);

-- name: task
SELECT tenant_id, task_id, user_id, tool, name, status, run, hold_id, lane, pool, priority, price_points, charged_points,
       webhook_url, event_sequence, error, created_at, started_at, ended_at, cancel_requested_at, trace_id, submission_key, is_draft,
       on_failure
  FROM task
 WHERE task_id = %(task_id)s;

-- name: lock_task
-- Taken before any node of the task changes. So the ends of two nodes see each other, and transactions do not deadlock.
SELECT tenant_id, task_id, user_id, tool, name, status, run, hold_id, lane, pool, priority, price_points, charged_points,
       webhook_url, event_sequence, error, created_at, started_at, ended_at, cancel_requested_at, trace_id, submission_key, is_draft,
       on_failure
  FROM task
 WHERE task_id = %(task_id)s
   FOR UPDATE;

-- name: tasks_page
SELECT tenant_id, task_id, user_id, tool, name, status, run, hold_id, lane, pool, priority, price_points, charged_points,
       webhook_url, event_sequence, error, created_at, started_at, ended_at, cancel_requested_at, is_draft
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
SELECT node.task_id,
       floor(sum(node.cost_us * CASE WHEN node.status = 'COMPLETED' THEN 100 ELSE greatest(node.progress, live.percent) END)
             / sum(node.cost_us))::integer AS progress
  FROM task_node AS node
  LEFT JOIN unnest(%(node_ids)s::uuid[], %(attempts)s::integer[], %(percents)s::integer[]) AS live (node_id, attempt, percent)
    ON live.node_id = node.node_id AND live.attempt = node.attempt AND node.status = 'PROCESSING'
 WHERE node.task_id = ANY (%(task_ids)s::uuid[]) AND node.superseded_at IS NULL
 GROUP BY node.task_id;

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

-- name: ranks_of_task
-- How many nodes of the tenant wait before each waiting node of a task, on its track. For the time without Redis: users of
-- the tenant do not take turns here.
SELECT node_id, rank
  FROM (SELECT node_id, task_id,
               row_number() OVER (PARTITION BY type, model, step ORDER BY array_position('{HIGH,NORMAL,LOW}'::text[], priority), ready_at, node_id) - 1 AS rank
          FROM task_node
         WHERE tenant_id = current_tenant() AND pool = %(pool)s AND lane = %(lane)s
           AND status = 'QUEUED' AND dispatched_at IS NULL) AS waiting
 WHERE task_id = %(task_id)s;

-- name: node_ids_of_task
SELECT node_id FROM task_node WHERE task_id = %(task_id)s AND superseded_at IS NULL;

-- name: dependencies_of_nodes
-- A list instead of a join. Until the next ANALYZE the planner expects no row of a new tenant, so a nested loop may scan all
-- rows of the tenant again and again. One scan of one table reads each row at most once.
SELECT node_id, depends_on_id FROM node_dependency WHERE node_id = ANY (%(node_ids)s::uuid[]);

-- name: mark_ready
SELECT * FROM node_ready(%(node_ids)s::uuid[]);

-- name: dispatch
SELECT sent.*, (SELECT trace_id FROM task WHERE task.task_id = sent.task_id::uuid) AS trace_id
  FROM node_dispatch(%(node_ids)s::uuid[], %(charges_us)s::bigint[], %(tags_us)s::bigint[]) AS sent;

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
-- With the facts that name the pictures of each node, as in `claim`. A worker renews nodes of its own pool only.
UPDATE task_node AS node
   SET lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
  FROM unnest(%(node_ids)s::uuid[], %(attempts)s::integer[]) AS held (node_id, attempt)
 WHERE node.node_id = ANY (%(node_ids)s::uuid[]) AND node.node_id = held.node_id AND node.attempt = held.attempt
   AND CASE WHEN node.worker_id = %(worker_id)s THEN node.status = 'PROCESSING' AND node.pool = %(pool)s END
RETURNING node.tenant_id, node.task_id, node.node_id, node.attempt, node.params, node.inputs,
          (SELECT json_object_agg(source.name, source.output)
             FROM task_node AS source
            WHERE source.task_id = node.task_id AND source.superseded_at IS NULL
              AND source.name IN (SELECT input ->> 'node' FROM jsonb_array_elements(node.inputs) AS input)) AS outputs;

-- name: cancelled_of
SELECT node.node_id
  FROM task_node AS node
  JOIN unnest(%(node_ids)s::uuid[], %(attempts)s::integer[]) AS held (node_id, attempt)
    ON held.node_id = node.node_id AND held.attempt = node.attempt
 WHERE node.status = 'CANCELLED';

-- name: tasks_of_nodes
SELECT node_id, tenant_id, task_id FROM task_node WHERE node_id = ANY (%(node_ids)s::uuid[]);

-- name: finish
-- `step` is null unless the step failed since its last success.
SELECT done.name, done.pool, done.is_leaf, done.ready, done.answers, node.type, node.run_s, node.step, node.dispatched_at
  FROM node_finish(%(task_id)s, %(node_id)s, %(attempt)s, %(output)s, %(engine)s, %(gpu_us)s, %(artefacts)s::json) AS done,
       (SELECT ended.type, extract(epoch FROM clock_timestamp() - ended.started_at)::float8 AS run_s, circuit.step,
               ended.dispatched_at
          FROM task_node AS ended LEFT JOIN circuit ON circuit.pool = ended.pool AND circuit.step = ended.step
         WHERE ended.node_id = %(node_id)s) AS node;

-- name: trial
SELECT clock_timestamp() AS now, node.dispatched_at, node.pool, node.step, coalesce(failures_in_row, 0) AS failures, opened_at,
       probe_at, coalesce(probes_failed, 0) AS probes_failed, coalesce(last_error, '') AS last_error
  FROM task_node AS node
  LEFT JOIN (SELECT pool, step, failures AS failures_in_row, opened_at, probe_at, probes_failed, last_error FROM circuit) AS circuit
    ON circuit.pool = node.pool AND circuit.step = node.step
 WHERE node.node_id = %(node_id)s;

-- name: fail
UPDATE task_node
   SET status = 'FAILED', version = version + 1, error = %(error)s, failures = failures + %(counted)s, gpu_us = %(gpu_us)s,
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

-- name: time_out_stopped
-- The circuit is checked again, because it may have closed. The node holds no slot, and the attempt is the last one, or 0.
UPDATE task_node AS node
   SET status = 'TIMEOUT', version = version + 1, error = %(error)s, ended_at = clock_timestamp()
 WHERE node_id = %(node_id)s AND status = 'QUEUED' AND dispatched_at IS NULL AND attempt = %(attempt)s
   AND EXISTS (SELECT FROM circuit
                WHERE circuit.pool = node.pool AND circuit.step = node.step AND circuit.opened_at IS NOT NULL);

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
RETURNING node_id, name, attempt, pool;

-- name: cancel_waiting
-- Those that have not started. A running attempt goes on.
UPDATE task_node
   SET status = 'CANCELLED', version = version + 1, error = %(error)s, ended_at = clock_timestamp()
 WHERE task_id = %(task_id)s AND superseded_at IS NULL AND status IN ('PENDING', 'QUEUED')
RETURNING node_id, pool;

-- name: cancel_dependents
UPDATE task_node
   SET status = 'CANCELLED', version = version + 1, error = %(error)s, ended_at = clock_timestamp()
 WHERE node_id = ANY (%(node_ids)s::uuid[]) AND status IN ('PENDING', 'QUEUED') AND superseded_at IS NULL
RETURNING node_id, name, attempt, pool;

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
       execution_asked_at = clock_timestamp(), purge_stage = 0
 WHERE task_id = %(task_id)s AND status IN ('FAILED', 'PARTIAL');

-- name: reset_failures
-- A retry by the user resets the count of failures.
UPDATE task_node SET failures = 0 WHERE task_id = %(task_id)s AND status = 'PENDING';

-- name: supersede
UPDATE task_node SET superseded_at = clock_timestamp()
 WHERE node_id = ANY (%(node_ids)s::uuid[]) AND status = 'CANCELLED' AND superseded_at IS NULL;

-- name: keep_tokens
SELECT tenant_id, token_id, node_id, token, status FROM token_keep(%(tokens)s::json);

-- name: token_answers
SELECT tenant_id, token_id, node_id, token, status FROM token_answers(%(node_ids)s::uuid[]);

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
       (SELECT count(*) FROM (SELECT FROM task_node WHERE task_node.pool = lane.pool AND ended_at > statement_timestamp() - interval '5 minutes'
                 LIMIT 20000) AS ended) AS ended_lately
  FROM lane_policy AS lane
 WHERE lane.lane = %(lane)s;

-- name: measured_durations
-- The latest nodes that completed: for each step, each type and the pool. A slot is free from the end of the worker's node
-- before; the rest of the time until the start is what the platform takes. Of that the lower quartile: cold starts are rare.
SELECT step, type, count(*)::integer AS samples,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY run_us) AS run_us,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY run_us / cost_us) AS scale,
       percentile_cont(0.25) WITHIN GROUP (ORDER BY ready_us) FILTER (WHERE attempt = 1) AS ready_us,
       percentile_cont(0.25) WITHIN GROUP (ORDER BY claim_us) AS claim_us
  FROM (SELECT step, type, cost_us, attempt,
               extract(epoch FROM ended_at - started_at)::float8 * 1000000 AS run_us,
               extract(epoch FROM ready_at - greatest(created_at, (
                   SELECT max(other.ended_at)
                     FROM node_dependency AS edge
                     JOIN task_node AS other ON other.tenant_id = edge.tenant_id AND other.node_id = edge.depends_on_id
                    WHERE edge.tenant_id = recent.tenant_id AND edge.node_id = recent.node_id)))::float8 * 1000000 AS ready_us,
               greatest(0, extract(epoch FROM started_at - greatest(dispatched_at,
                   lag(ended_at) OVER (PARTITION BY worker_id ORDER BY started_at)))::float8 * 1000000) AS claim_us
          FROM (SELECT tenant_id, node_id, step, type, cost_us, attempt, worker_id, created_at, ready_at, dispatched_at,
                       started_at, ended_at
                  FROM task_node
                 WHERE pool = %(pool)s AND status = 'COMPLETED' AND started_at IS NOT NULL
                   AND ended_at > statement_timestamp() - make_interval(secs => %(window_s)s)
                 ORDER BY ended_at DESC
                 LIMIT %(limit)s) AS recent) AS measured
 GROUP BY GROUPING SETS ((step, type), (type), ())
HAVING count(*) > 0;

-- name: demand_of_types
-- How many nodes of each type wanted a slot at once in the window, on average and of each tenant no more than its cap; and
-- the cost of those that completed. Where demand fills the slots, this is what a slot really gets done.
SELECT type, sum(least(demand, policy.cap))::float8 AS demand, sum(completed_us)::float8 AS completed_us
  FROM (SELECT tenant_id, type,
               sum(extract(epoch FROM coalesce(ended_at, statement_timestamp())
                       - greatest(ready_at, statement_timestamp() - make_interval(secs => %(window_s)s)))) / %(window_s)s AS demand,
               coalesce(sum(cost_us) FILTER (WHERE status = 'COMPLETED'), 0) AS completed_us
          FROM (SELECT tenant_id, type, cost_us, status, ready_at, ended_at FROM task_node
                 WHERE pool = %(pool)s AND ended_at > statement_timestamp() - make_interval(secs => %(window_s)s) AND ready_at IS NOT NULL
                 UNION ALL
                (SELECT tenant_id, type, cost_us, status, ready_at, ended_at FROM task_node
                  WHERE pool = %(pool)s AND status = 'QUEUED' AND dispatched_at IS NULL
                  LIMIT 20000)
                 UNION ALL
                SELECT tenant_id, type, cost_us, status, ready_at, ended_at FROM task_node
                 WHERE pool = %(pool)s AND status IN ('QUEUED', 'PROCESSING') AND dispatched_at IS NOT NULL) AS live
         GROUP BY tenant_id, type) AS by_tenant
  JOIN tenant_policy AS policy USING (tenant_id)
 GROUP BY type;

-- name: lateness
-- How promises were kept lately: actual / expected duration of tasks that ended, and of those that are overdue already.
SELECT count(*)::integer AS samples, percentile_cont(0.5) WITHIN GROUP (ORDER BY ratio) AS ratio
  FROM (SELECT extract(epoch FROM task.ended_at - task.created_at)::float8 / task.eta_model_s AS ratio
          FROM (SELECT DISTINCT tenant_id, task_id
                  FROM (SELECT tenant_id, task_id FROM task_node
                         WHERE pool = %(pool)s AND ended_at > statement_timestamp() - make_interval(secs => %(window_s)s)
                         ORDER BY ended_at DESC
                         LIMIT %(limit)s) AS recent) AS ended
          JOIN task USING (tenant_id, task_id)
         WHERE task.status = 'COMPLETED' AND task.run = 1 AND task.eta_model_s IS NOT NULL
         UNION ALL
        SELECT extract(epoch FROM statement_timestamp() - created_at)::float8 / eta_model_s
          FROM (SELECT created_at, eta_model_s FROM task
                 WHERE ended_at IS NULL AND pool = %(pool)s AND run = 1 AND eta_model_s IS NOT NULL
                 ORDER BY execution_asked_at
                 LIMIT %(limit)s) AS live
         WHERE statement_timestamp() > created_at + make_interval(secs => eta_model_s)) AS sample;

-- name: register_worker
INSERT INTO worker (worker_id, pool, types, slots, engine, neural)
VALUES (%(worker_id)s, %(pool)s, %(types)s, %(slots)s, %(engine)s, %(neural)s)
ON CONFLICT (worker_id) DO UPDATE
   SET pool = excluded.pool, types = excluded.types, slots = excluded.slots, engine = excluded.engine, neural = excluded.neural,
       beat_at = clock_timestamp();

-- name: beat_worker
INSERT INTO worker (worker_id, pool, types, slots, neural)
VALUES (%(worker_id)s, %(pool)s, %(types)s, %(slots)s, %(neural)s)
ON CONFLICT (worker_id) DO UPDATE
   SET pool = excluded.pool, types = excluded.types, slots = excluded.slots, neural = excluded.neural, beat_at = clock_timestamp()
RETURNING drain_at IS NOT NULL AS is_draining;

-- name: neural_steps
-- The steps that live workers of a pool serve with a network.
SELECT count(DISTINCT worker_id) AS workers, array_agg(DISTINCT step) FILTER (WHERE step IS NOT NULL) AS steps
  FROM worker LEFT JOIN LATERAL unnest(neural) AS step ON true
 WHERE pool = %(pool)s AND slots > 0 AND drain_at IS NULL AND beat_at > clock_timestamp() - make_interval(secs => %(silence_s)s);

-- name: delete_worker
DELETE FROM worker WHERE worker_id = %(worker_id)s;

-- name: search_tasks
-- As `artiway_service`, across tenants, newest first: ids are ordered by time.
SELECT task.tenant_id, task_id, task.user_id, tool, task.name, task.status, lane, priority, price_points, charged_points, trace_id,
       error, task.created_at, started_at, ended_at, tenant.name AS tenant_name, person.email AS user_email
  FROM task
  JOIN tenant USING (tenant_id)
  JOIN app_user AS person ON person.tenant_id = task.tenant_id AND person.user_id = task.user_id
 WHERE (%(before)s::uuid IS NULL OR task_id < %(before)s)
   AND (%(task_id)s::uuid IS NULL OR task_id = %(task_id)s)
   AND (%(trace_id)s::text IS NULL OR trace_id = %(trace_id)s AND task.created_at > statement_timestamp() - interval '7 days')
   AND (%(email)s::text IS NULL OR task.user_id = (SELECT user_id FROM app_user WHERE email = %(email)s))
   AND (%(tenant_id)s::uuid IS NULL OR task.tenant_id = %(tenant_id)s)
   AND (%(user_id)s::uuid IS NULL OR task.user_id = %(user_id)s)
   AND (%(status)s::text IS NULL OR task.status = %(status)s)
   AND (%(tool)s::text IS NULL OR tool = %(tool)s)
   AND (%(lane)s::text IS NULL OR lane = %(lane)s)
   AND (%(since)s::timestamptz IS NULL OR task.created_at >= %(since)s)
   AND (%(until)s::timestamptz IS NULL OR task.created_at < %(until)s)
 ORDER BY task_id DESC
 LIMIT %(limit)s;

-- name: nodes_for_operators
SELECT node.node_id, node.name, node.type, node.step, node.status, node.attempt, node.failures, node.progress, node.worker_id,
       node.error, node.engine, node.created_at, node.ready_at, node.dispatched_at, node.started_at, node.ended_at,
       ARRAY(SELECT source.name
               FROM node_dependency AS edge
               JOIN task_node AS source ON source.tenant_id = edge.tenant_id AND source.node_id = edge.depends_on_id
              WHERE edge.tenant_id = node.tenant_id AND edge.node_id = node.node_id
              ORDER BY source.name) AS depends_on
  FROM task_node AS node
 WHERE node.task_id = %(task_id)s AND node.superseded_at IS NULL
 ORDER BY node.position, node.node_id;

-- name: steps_of_task
SELECT changed_at AS at, node.name AS node, from_status, to_status, history.attempt, history.worker_id, reason
  FROM task_node AS node JOIN node_history AS history ON history.tenant_id = node.tenant_id AND history.node_id = node.node_id
 WHERE node.task_id = %(task_id)s
 ORDER BY changed_at, node.position, history.version
 LIMIT %(limit)s;
