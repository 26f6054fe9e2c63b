-- Runs of all tenants (service role), and of one tenant where a definition changes. `now` is read once per transaction and
-- passed on: a volatile clock_timestamp() in a condition could not use an index. Searches by run id name the days that the
-- id can lie in, because its first bits are its scheduled time.

-- name: lock_admissions
-- Every transaction that starts, defers, ends, terminates or replays runs. A partition may have no statistics yet, so the
-- plans are forced to the indexes.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), pg_advisory_xact_lock(10, 0), clock_timestamp() AS now;

-- name: use_indexes
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), clock_timestamp() AS now;

-- name: ensure_partitions
SELECT job_partition_ensure(day) FROM unnest(%(days)s::date[]) AS day;

-- name: tenant_policies
SELECT policy.tenant_id, policy.tier, policy.status, policy.priority, policy.weight, tenant.job_concurrency,
       tenant.job_per_minute, tenant.job_period_s
  FROM tenant_policy AS policy JOIN tenant USING (tenant_id)
 WHERE policy.tenant_id = ANY (%(tenant_ids)s::uuid[]);

-- name: lock_due_jobs
-- A job that another trigger or an edit holds is skipped: the holder, or the next pass, sees to it. Jobs of a suspended tenant
-- are read when their time has come, to note it.
SELECT tenant_id, job_id, user_id, name, status, version, schedule_type, expr, at, timezone, jitter_s, starts_at, ends_at,
       next_fire_at, last_fire_at, task_type, priority, max_attempts, base_delay_ms, max_delay_ms, concurrency_limit,
       overlap_policy, misfire_policy, catchup_window_s, timeout_s, note, paused_by, paused_at, created_at, updated_at
  FROM job
 WHERE next_fire_at <= %(until)s
   AND (next_fire_at <= %(now)s
        OR NOT EXISTS (SELECT FROM tenant WHERE tenant.tenant_id = job.tenant_id AND tenant.status <> 'ACTIVE'))
 ORDER BY next_fire_at, job_id
 LIMIT %(limit)s
   FOR UPDATE SKIP LOCKED;

-- name: job
SELECT tenant_id, job_id, user_id, name, status, version, schedule_type, expr, at, timezone, jitter_s, starts_at, ends_at,
       next_fire_at, last_fire_at, task_type, priority, max_attempts, base_delay_ms, max_delay_ms, concurrency_limit,
       overlap_policy, misfire_policy, catchup_window_s, timeout_s, note, paused_by, paused_at, created_at, updated_at
  FROM job
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s;

-- name: lock_stale_zones
SELECT tenant_id, job_id, user_id, name, status, version, schedule_type, expr, at, timezone, jitter_s, starts_at, ends_at,
       next_fire_at, last_fire_at, task_type, priority, max_attempts, base_delay_ms, max_delay_ms, concurrency_limit,
       overlap_policy, misfire_policy, catchup_window_s, timeout_s, note, paused_by, paused_at, created_at, updated_at
  FROM job
 WHERE status = 'ACTIVE' AND (tzdata_version < %(version)s OR tzdata_version > %(version)s)
 LIMIT %(limit)s
   FOR UPDATE SKIP LOCKED;

-- name: set_zones
UPDATE job
   SET next_fire_at = given.next_fire_at, tzdata_version = %(version)s
  FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[], %(next_fire_ats)s::timestamptz[]) AS given (tenant_id, job_id, next_fire_at)
 WHERE job.tenant_id = given.tenant_id AND job.job_id = given.job_id;

-- name: advance_jobs
UPDATE job
   SET next_fire_at = given.next_fire_at, last_fire_at = given.last_fire_at
  FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[], %(next_fire_ats)s::timestamptz[], %(last_fire_ats)s::timestamptz[])
       AS given (tenant_id, job_id, next_fire_at, last_fire_at)
 WHERE job.tenant_id = given.tenant_id AND job.job_id = given.job_id;

-- name: insert_runs
-- The unique key keeps one run per job and scheduled time. Returns those that are new.
INSERT INTO job_run (tenant_id, run_id, job_id, scheduled_at, assigned_at, due_at, hinted_at, kind, task_type, lane, job_version, trace_id,
                     created_at)
SELECT tenant_id, run_id, job_id, scheduled_at, assigned_at, assigned_at, hinted_at, kind, task_type, lane, job_version, trace_id,
       %(now)s
  FROM unnest(%(tenant_ids)s::uuid[], %(run_ids)s::uuid[], %(job_ids)s::uuid[], %(scheduled_ats)s::timestamptz[],
              %(assigned_ats)s::timestamptz[], %(hinted_ats)s::timestamptz[], %(kinds)s::text[], %(task_types)s::text[],
              %(lanes)s::text[], %(job_versions)s::integer[], %(trace_ids)s::text[])
       AS run (tenant_id, run_id, job_id, scheduled_at, assigned_at, hinted_at, kind, task_type, lane, job_version, trace_id)
ON CONFLICT (tenant_id, job_id, scheduled_at) DO NOTHING
RETURNING run_id;

-- name: insert_notes
INSERT INTO job_fire_note (tenant_id, job_id, first_at, last_at, outcome, fires, reason, at)
SELECT tenant_id, job_id, first_at, last_at, outcome, fires, reason, %(now)s
  FROM json_to_recordset(%(notes)s::json)
       AS note (tenant_id uuid, job_id uuid, first_at timestamptz, last_at timestamptz, outcome text, fires integer, reason text)
ON CONFLICT (tenant_id, job_id, first_at, outcome) DO NOTHING;

-- name: complete_jobs
-- The last nominal time has passed and no other follows.
WITH ended AS (
    SELECT tenant_id, job_id FROM job
     WHERE status = 'ACTIVE' AND next_fire_at IS NULL AND last_fire_at <= %(now)s
     ORDER BY last_fire_at
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED),
completed AS (
    UPDATE job SET status = 'COMPLETED', version = version + 1, updated_at = %(now)s
      FROM ended
     WHERE job.tenant_id = ended.tenant_id AND job.job_id = ended.job_id
    RETURNING job.tenant_id, job.job_id, job.version, job.schedule_type, job.expr, job.at, job.timezone),
before AS (
    UPDATE job_change SET superseded_at = %(now)s
      FROM completed
     WHERE job_change.tenant_id = completed.tenant_id AND job_change.job_id = completed.job_id
       AND job_change.version = completed.version - 1)
INSERT INTO job_change (tenant_id, job_id, version, action, schedule, at)
SELECT tenant_id, job_id, version, 'completed',
       jsonb_strip_nulls(jsonb_build_object('type', schedule_type, 'expr', expr, 'at', at, 'timezone', timezone)), %(now)s
  FROM completed;

-- name: lag
SELECT extract(epoch FROM %(now)s - min(next_fire_at))::float8 AS lag_s FROM job WHERE next_fire_at IS NOT NULL;

-- name: backlog
-- Runs that are due and have not started: announced, or over a limit.
SELECT (SELECT count(*) FROM job_run WHERE state IN ('PENDING', 'RETRYING') AND NOT is_deferred AND due_at <= %(now)s)
       + (SELECT coalesce(sum(deferred + blocked), 0) FROM job_load)::bigint AS runs;

-- name: ended_runs
SELECT count(*) AS ended, count(*) FILTER (WHERE state = 'FAILED') AS failed
  FROM job_run
 WHERE ended_at >= %(since)s AND ended_at <= %(now)s;

-- name: hint_again
-- Runs that come within the horizon without a message, and runs that are overdue although a message was published.
WITH unhinted AS (
    SELECT tenant_id, job_id, scheduled_at FROM job_run
     WHERE state IN ('PENDING', 'RETRYING') AND NOT is_deferred AND hinted_at IS NULL AND due_at <= %(until)s
     ORDER BY due_at
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED),
overdue AS (
    SELECT tenant_id, job_id, scheduled_at FROM job_run
     WHERE state IN ('PENDING', 'RETRYING') AND NOT is_deferred AND due_at <= %(overdue)s AND hinted_at <= %(resend)s
     ORDER BY due_at, run_id
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED)
UPDATE job_run AS run SET hinted_at = %(now)s
  FROM (SELECT * FROM unhinted UNION SELECT * FROM overdue) AS late
 WHERE run.tenant_id = late.tenant_id AND run.job_id = late.job_id AND run.scheduled_at = late.scheduled_at
RETURNING run.tenant_id, run.run_id, run.lane, run.due_at;

-- name: retract_runs
-- Runs that were created ahead and that nothing has started. The next fire of the job makes them again if they still apply.
DELETE FROM job_run
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s AND scheduled_at > %(since)s AND due_at > %(now)s
   AND kind IN ('SCHEDULED', 'CATCHUP') AND state = 'PENDING' AND attempt = 0 AND generation = 1 AND NOT is_deferred
RETURNING scheduled_at;

-- name: due_runs
-- A run that an edit is about to delete is locked, and skipped. Without statistics PostgreSQL would read all waiting runs and
-- compare each with each id: 11 s for 500 of 40,000. OFFSET 0 and CASE leave it the index of ids: 14 ms.
SELECT run.tenant_id, run.run_id, run.job_id, run.scheduled_at, run.due_at, run.lane, run.task_type, run.state, run.kind,
       run.generation, run.attempt, run.is_deferred, run.defer_reason, job.overlap_policy, job.concurrency_limit, job.timeout_s
  FROM unnest(%(run_ids)s::uuid[]) AS wanted (run_id)
 CROSS JOIN LATERAL (
       SELECT * FROM job_run
        WHERE job_run.run_id = wanted.run_id AND scheduled_at >= %(since)s AND scheduled_at < %(until)s
          AND CASE WHEN NOT is_deferred THEN state IN ('PENDING', 'RETRYING') END
       OFFSET 0
          FOR UPDATE SKIP LOCKED) AS run
  JOIN job ON job.tenant_id = run.tenant_id AND job.job_id = run.job_id;

-- name: blocked_runs
-- The oldest runs that wait for another run of their job: one, or as many as the job may have at once.
SELECT run.tenant_id, run.run_id, run.job_id, run.scheduled_at, run.due_at, run.lane, run.task_type, run.state, run.kind,
       run.generation, run.attempt, run.is_deferred, run.defer_reason, job.overlap_policy, job.concurrency_limit, job.timeout_s
  FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[]) AS wanted (tenant_id, job_id)
  JOIN job ON job.tenant_id = wanted.tenant_id AND job.job_id = wanted.job_id
 CROSS JOIN LATERAL (
       SELECT * FROM job_run
        WHERE job_run.tenant_id = wanted.tenant_id AND job_run.job_id = wanted.job_id AND is_deferred
          AND defer_reason IN ('overlap', 'job_concurrency')
        ORDER BY due_at, run_id
        LIMIT CASE job.overlap_policy WHEN 'ALLOW_ALL' THEN least(job.concurrency_limit, 100) ELSE 1 END) AS run;

-- name: blocked_jobs
SELECT DISTINCT tenant_id, job_id FROM (
    SELECT tenant_id, job_id FROM job_run
     WHERE tenant_id = ANY (%(tenant_ids)s::uuid[]) AND is_deferred AND defer_reason IN ('overlap', 'job_concurrency')
     LIMIT %(limit)s) AS run;

-- name: deferred_runs
SELECT run.tenant_id, run.run_id, run.job_id, run.scheduled_at, run.due_at, run.lane, run.task_type, run.state, run.kind,
       run.generation, run.attempt, run.is_deferred, run.defer_reason, job.overlap_policy, job.concurrency_limit, job.timeout_s
  FROM unnest(%(tenant_ids)s::uuid[], %(lanes)s::text[], %(calls)s::boolean[], %(counts)s::integer[])
       AS wanted (tenant_id, lane, is_call, count)
 CROSS JOIN LATERAL (
       SELECT * FROM job_run
        WHERE job_run.tenant_id = wanted.tenant_id AND job_run.lane = wanted.lane AND (task_type = 'HTTP') = wanted.is_call
          AND is_deferred AND defer_reason NOT IN ('overlap', 'job_concurrency')
        ORDER BY due_at, run_id
        LIMIT wanted.count) AS run
  JOIN job ON job.tenant_id = run.tenant_id AND job.job_id = run.job_id;

-- name: job_loads
-- Of the waiting runs three are enough to know whether others wait.
SELECT wanted.tenant_id, wanted.job_id, active.running, active.retrying, waiting.waiting
  FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[]) AS wanted (tenant_id, job_id)
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE state = 'RUNNING') AS running, count(*) FILTER (WHERE state = 'RETRYING') AS retrying
         FROM job_run
        WHERE tenant_id = wanted.tenant_id AND job_id = wanted.job_id AND state IN ('RUNNING', 'RETRYING')
          AND kind <> 'BACKFILL') AS active
 CROSS JOIN LATERAL (
       SELECT count(*) AS waiting
         FROM (SELECT FROM job_run
                WHERE tenant_id = wanted.tenant_id AND job_id = wanted.job_id AND is_deferred AND kind <> 'BACKFILL'
                LIMIT 3) AS run)
       AS waiting;

-- name: other_runs
SELECT run.tenant_id, run.run_id, run.job_id, run.scheduled_at, run.lane, run.task_type, run.state, run.generation, run.attempt,
       run.is_deferred, run.defer_reason, run.task_id
  FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[]) AS wanted (tenant_id, job_id)
  JOIN job_run AS run ON run.tenant_id = wanted.tenant_id AND run.job_id = wanted.job_id AND run.state IN ('RUNNING', 'RETRYING')
   AND run.kind <> 'BACKFILL'
 UNION
SELECT run.tenant_id, run.run_id, run.job_id, run.scheduled_at, run.lane, run.task_type, run.state, run.generation, run.attempt,
       run.is_deferred, run.defer_reason, run.task_id
  FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[]) AS wanted (tenant_id, job_id)
  JOIN job_run AS run ON run.tenant_id = wanted.tenant_id AND run.job_id = wanted.job_id AND run.is_deferred AND run.kind <> 'BACKFILL';

-- name: loads
SELECT tenant_id, lane, is_call, running, deferred, blocked FROM job_load WHERE running > 0 OR deferred > 0 OR blocked > 0;

-- name: blocked_tenants
SELECT DISTINCT tenant_id FROM job_load WHERE blocked > 0;

-- name: minutes
SELECT tenant_id, minute, started, put_off, slot_at FROM job_minute WHERE tenant_id = ANY (%(tenant_ids)s::uuid[]);

-- name: lane_rules
-- Paused by an operator, or by the guard.
SELECT lane, coalesce(setting.is_paused, false) OR coalesce(lane = ANY (guard.lanes), false) AS is_paused, setting.parallelism
  FROM unnest(%(lanes)s::text[]) AS lane LEFT JOIN lane_setting AS setting USING (lane)
  LEFT JOIN run_guard AS guard ON true;

-- name: start_runs
-- With what a call needs of its job. TASK and FLOW runs read theirs when they are submitted.
UPDATE job_run AS run
   SET state = 'RUNNING', attempt = run.attempt + 1, started_at = %(now)s, is_deferred = false, defer_reason = NULL, task_id = NULL,
       lease_until = %(now)s + make_interval(secs => given.lease_s)
  FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[], %(scheduled_ats)s::timestamptz[], %(lease_s)s::integer[])
       AS given (tenant_id, job_id, scheduled_at, lease_s), job
 WHERE run.tenant_id = given.tenant_id AND run.job_id = given.job_id AND run.scheduled_at = given.scheduled_at
   AND job.tenant_id = given.tenant_id AND job.job_id = given.job_id
   AND run.state IN ('PENDING', 'RETRYING')
RETURNING run.tenant_id, run.run_id, run.job_id, run.scheduled_at, run.assigned_at, run.due_at, run.lane, run.task_type, run.generation,
          run.attempt, run.trace_id, CASE WHEN run.task_type = 'HTTP' THEN job.task END AS task, job.timeout_s, run.predecessors;

-- name: secrets
SELECT tenant_id, name, ciphertext FROM job_secret
 WHERE (tenant_id, name) IN (SELECT * FROM unnest(%(tenant_ids)s::uuid[], %(names)s::text[]));

-- name: signing_keys
-- The present key first; for a while after a rotation also the one before.
SELECT tenant_id, ciphertext, CASE WHEN previous_until > %(now)s THEN previous END AS previous
  FROM job_signing_key WHERE tenant_id = ANY (%(tenant_ids)s::uuid[]);

-- name: defer_runs
UPDATE job_run AS run
   SET is_deferred = true, defer_reason = given.reason, deferred_at = coalesce(run.deferred_at, %(now)s)
  FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[], %(scheduled_ats)s::timestamptz[], %(reasons)s::text[])
       AS given (tenant_id, job_id, scheduled_at, reason)
 WHERE run.tenant_id = given.tenant_id AND run.job_id = given.job_id AND run.scheduled_at = given.scheduled_at
   AND run.state IN ('PENDING', 'RETRYING');

-- name: put_off_runs
UPDATE job_run AS run
   SET is_deferred = false, defer_reason = 'tenant_rate', deferred_at = coalesce(run.deferred_at, %(now)s), due_at = given.due_at,
       hinted_at = given.hinted_at
  FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[], %(scheduled_ats)s::timestamptz[], %(due_ats)s::timestamptz[],
              %(hinted_ats)s::timestamptz[]) AS given (tenant_id, job_id, scheduled_at, due_at, hinted_at)
 WHERE run.tenant_id = given.tenant_id AND run.job_id = given.job_id AND run.scheduled_at = given.scheduled_at
   AND run.state IN ('PENDING', 'RETRYING');

-- name: skip_runs
WITH skipped AS (
    DELETE FROM job_run AS run
     USING unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[], %(scheduled_ats)s::timestamptz[]) AS given (tenant_id, job_id, scheduled_at)
     WHERE run.tenant_id = given.tenant_id AND run.job_id = given.job_id AND run.scheduled_at = given.scheduled_at
       AND run.state = 'PENDING' AND run.attempt = 0 AND run.generation = 1
    RETURNING run.tenant_id, run.job_id, run.scheduled_at)
INSERT INTO job_fire_note (tenant_id, job_id, first_at, last_at, outcome, fires, reason, at)
SELECT tenant_id, job_id, scheduled_at, scheduled_at, 'SKIPPED_OVERLAP', 1, 'another run of the job was active', %(now)s FROM skipped
ON CONFLICT (tenant_id, job_id, first_at, outcome) DO NOTHING;

-- name: lock_runs
-- For a user who terminates or replays runs.
SELECT run.tenant_id, run.run_id, run.job_id, run.scheduled_at, run.lane, run.task_type, run.state, run.generation, run.attempt,
       run.is_deferred, run.defer_reason, run.task_id
  FROM unnest(%(run_ids)s::uuid[]) AS wanted (run_id)
 CROSS JOIN LATERAL (
       SELECT * FROM job_run
        WHERE job_run.run_id = wanted.run_id AND scheduled_at >= %(since)s AND scheduled_at < %(until)s
       OFFSET 0
          FOR UPDATE) AS run;

-- name: terminate_runs
UPDATE job_run AS run
   SET state = 'TERMINATED', ended_at = %(now)s, lease_until = NULL, is_deferred = false, last_error = %(reason)s
  FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[], %(scheduled_ats)s::timestamptz[]) AS given (tenant_id, job_id, scheduled_at)
 WHERE run.tenant_id = given.tenant_id AND run.job_id = given.job_id AND run.scheduled_at = given.scheduled_at
   AND run.state IN ('PENDING', 'RUNNING', 'RETRYING');

-- name: replay_runs
UPDATE job_run AS run
   SET state = 'PENDING', generation = run.generation + 1, attempt = 0, due_at = %(now)s, hinted_at = %(now)s, dead_at = NULL,
       ended_at = NULL, started_at = NULL, is_deferred = false, defer_reason = NULL, deferred_at = NULL, http_status = NULL,
       answer = NULL, last_error = NULL, task_id = NULL
  FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[], %(scheduled_ats)s::timestamptz[]) AS given (tenant_id, job_id, scheduled_at)
 WHERE run.tenant_id = given.tenant_id AND run.job_id = given.job_id AND run.scheduled_at = given.scheduled_at
   AND run.state IN ('SUCCESS', 'FAILED', 'TERMINATED')
RETURNING run.tenant_id, run.run_id, run.lane, run.due_at;

-- name: add_loads
INSERT INTO job_load (tenant_id, lane, is_call)
SELECT * FROM unnest(%(tenant_ids)s::uuid[], %(lanes)s::text[], %(calls)s::boolean[])
ON CONFLICT (tenant_id, lane, is_call) DO NOTHING;

-- name: change_loads
UPDATE job_load
   SET running = job_load.running + given.running, deferred = job_load.deferred + given.deferred,
       blocked = job_load.blocked + given.blocked
  FROM unnest(%(tenant_ids)s::uuid[], %(lanes)s::text[], %(calls)s::boolean[], %(running)s::integer[], %(deferred)s::integer[],
              %(blocked)s::integer[]) AS given (tenant_id, lane, is_call, running, deferred, blocked)
 WHERE job_load.tenant_id = given.tenant_id AND job_load.lane = given.lane AND job_load.is_call = given.is_call;

-- name: set_minutes
INSERT INTO job_minute (tenant_id, minute, started, put_off, slot_at)
SELECT * FROM unnest(%(tenant_ids)s::uuid[], %(minutes)s::timestamptz[], %(started)s::integer[], %(put_off)s::integer[],
                     %(slot_ats)s::timestamptz[])
ON CONFLICT (tenant_id) DO UPDATE
   SET minute = excluded.minute, started = excluded.started, put_off = excluded.put_off, slot_at = excluded.slot_at;

-- name: running_runs
-- The runs that results are about, in whatever state they are.
SELECT run.tenant_id, run.run_id, run.job_id, run.scheduled_at, run.lane, run.task_type, run.state, run.generation, run.attempt,
       run.task_id, job.max_attempts, job.base_delay_ms, job.max_delay_ms
  FROM unnest(%(run_ids)s::uuid[]) AS wanted (run_id)
 CROSS JOIN LATERAL (
       SELECT * FROM job_run
        WHERE job_run.run_id = wanted.run_id AND scheduled_at >= %(since)s AND scheduled_at < %(until)s
       OFFSET 0) AS run
  JOIN job ON job.tenant_id = run.tenant_id AND job.job_id = run.job_id;

-- name: finish_runs
-- Guarded by state, generation and attempt: a result of another attempt changes nothing.
UPDATE job_run AS run
   SET state = given.state, due_at = coalesce(given.due_at, run.due_at), hinted_at = coalesce(given.hinted_at, CASE WHEN given.due_at IS NULL THEN run.hinted_at END),
       lease_until = NULL, ended_at = CASE WHEN given.state = 'RETRYING' THEN NULL ELSE %(now)s::timestamptz END,
       dead_at = CASE WHEN given.state = 'FAILED' THEN %(now)s::timestamptz END, http_status = given.http_status,
       answer = given.answer, last_error = given.error
  FROM json_to_recordset(%(ends)s::json)
       AS given (tenant_id uuid, job_id uuid, scheduled_at timestamptz, generation integer, attempt integer, state text,
                 due_at timestamptz, hinted_at timestamptz, http_status smallint, answer text, error text)
 WHERE run.tenant_id = given.tenant_id AND run.job_id = given.job_id AND run.scheduled_at = given.scheduled_at
   AND run.state = 'RUNNING' AND run.generation = given.generation AND run.attempt = given.attempt
RETURNING run.run_id;

-- name: insert_results
INSERT INTO run_result (tenant_id, run_id, generation, attempt, outcome, http_status, error, answer, retry_after_s, elapsed_ms, at)
SELECT tenant_id, run_id, generation, attempt, outcome, http_status, error, answer, retry_after_s, elapsed_ms, at
  FROM json_to_recordset(%(results)s::json)
       AS given (tenant_id uuid, run_id uuid, generation integer, attempt integer, outcome text, http_status smallint, error text,
                 answer text, retry_after_s integer, elapsed_ms integer, at timestamptz)
ON CONFLICT DO NOTHING;

-- name: known_results
SELECT result.run_id, result.generation, result.attempt, result.at
  FROM unnest(%(run_ids)s::uuid[], %(generations)s::integer[], %(attempts)s::integer[], %(ats)s::timestamptz[])
       AS given (run_id, generation, attempt, at)
  JOIN run_result AS result ON result.run_id = given.run_id AND result.generation = given.generation
   AND result.attempt = given.attempt AND result.at = given.at;

-- name: insert_logs
INSERT INTO run_log (tenant_id, run_id, log_id, at, attempt, level, message)
SELECT tenant_id, run_id, log_id, at, attempt, level, message
  FROM json_to_recordset(%(lines)s::json)
       AS line (tenant_id uuid, run_id uuid, log_id uuid, at timestamptz, attempt integer, level text, message text)
ON CONFLICT DO NOTHING;

-- name: ended_tasks
-- The tasks of these runs that have ended. The task's own row is the result of a TASK or FLOW run.
SELECT run.run_id, task.status, task.error, task.ended_at, task.task_id
  FROM unnest(%(run_ids)s::uuid[]) AS wanted (run_id)
 CROSS JOIN LATERAL (
       SELECT * FROM job_run
        WHERE job_run.run_id = wanted.run_id AND scheduled_at >= %(since)s AND scheduled_at < %(until)s
       OFFSET 0) AS run
  JOIN task ON task.tenant_id = run.tenant_id AND task.task_id = run.task_id
 WHERE run.state = 'RUNNING' AND task.ended_at IS NOT NULL;

-- name: expired_leases
SELECT run_id FROM job_run WHERE state = 'RUNNING' AND lease_until < %(now)s ORDER BY lease_until LIMIT %(limit)s;

-- name: unwritten_results
-- Runs that have a result of their present attempt, or whose task has ended, and that still run.
SELECT run.run_id, result.outcome, result.http_status, result.error, result.answer, result.retry_after_s, result.elapsed_ms, result.at,
       run.tenant_id, run.generation, run.attempt, NULL::uuid AS task_id
  FROM job_run AS run
  JOIN run_result AS result ON result.run_id = run.run_id AND result.generation = run.generation AND result.attempt = run.attempt
 WHERE run.state = 'RUNNING' AND run.lease_until > '-infinity' AND run.task_type = 'HTTP'
 UNION ALL
SELECT run.run_id, 'SUCCEEDED', NULL, NULL, NULL, NULL, NULL, task.ended_at, run.tenant_id, run.generation, run.attempt, run.task_id
  FROM job_run AS run
  JOIN task ON task.tenant_id = run.tenant_id AND task.task_id = run.task_id
 WHERE run.state = 'RUNNING' AND run.lease_until > '-infinity' AND run.task_type <> 'HTTP' AND task.ended_at < %(ended)s
 LIMIT %(limit)s;

-- name: recount_loads
-- Under the lock of admissions. Returns the counters that were wrong.
WITH counted AS (
    SELECT tenant_id, lane, task_type = 'HTTP' AS is_call, 1 AS running, 0 AS deferred, 0 AS blocked
      FROM job_run WHERE state = 'RUNNING' AND lease_until > '-infinity'
     UNION ALL
    SELECT tenant_id, lane, task_type = 'HTTP', 0,
           (defer_reason NOT IN ('overlap', 'job_concurrency'))::integer, (defer_reason IN ('overlap', 'job_concurrency'))::integer
      FROM job_run WHERE is_deferred
     UNION ALL
    SELECT tenant_id, lane, is_call, 0, 0, 0 FROM job_load),
truth AS (
    SELECT tenant_id, lane, is_call, sum(running) AS running, sum(deferred) AS deferred, sum(blocked) AS blocked
      FROM counted GROUP BY tenant_id, lane, is_call)
INSERT INTO job_load AS load (tenant_id, lane, is_call, running, deferred, blocked)
SELECT * FROM truth
ON CONFLICT (tenant_id, lane, is_call) DO UPDATE
   SET running = excluded.running, deferred = excluded.deferred, blocked = excluded.blocked
 WHERE (load.running, load.deferred, load.blocked) IS DISTINCT FROM (excluded.running, excluded.deferred, excluded.blocked)
RETURNING load.tenant_id;

-- name: lock_submission
SELECT run.run_id, run.job_id, run.scheduled_at, run.generation, run.attempt, run.lane, run.task_type, run.task_id, run.trace_id, job.user_id, job.task,
       job.name, job.priority
  FROM job_run AS run JOIN job ON job.tenant_id = run.tenant_id AND job.job_id = run.job_id
 WHERE run.run_id = %(run_id)s AND run.scheduled_at >= %(since)s AND run.scheduled_at < %(until)s
   AND run.state = 'RUNNING' AND run.generation = %(generation)s AND run.attempt = %(attempt)s AND run.task_id IS NULL
   FOR UPDATE OF run;

-- name: note_task
UPDATE job_run SET task_id = %(task_id)s
 WHERE run_id = %(run_id)s AND scheduled_at = %(scheduled_at)s AND state = 'RUNNING' AND attempt = %(attempt)s AND generation = %(generation)s;
