-- name: known_runs
SELECT run.run_id, run.scheduled_at, run.state,
       coalesce((SELECT status = 'RUNNING' FROM backfill
                  WHERE backfill.tenant_id = run.tenant_id AND backfill.backfill_id = run.backfill_id), false) AS is_of_running_backfill
  FROM job_run AS run
 WHERE run.tenant_id = current_tenant() AND run.job_id = %(job_id)s AND run.scheduled_at >= %(since)s AND run.scheduled_at < %(until)s
   AND run.kind <> 'MANUAL'
   FOR UPDATE;

-- name: ensure_days
SELECT job_partition_ensure(day) FROM unnest(%(days)s::date[]) AS day;

-- name: insert_backfill
INSERT INTO backfill (tenant_id, backfill_id, job_id, actor_id, since, until, parallelism, reprocess, status, total, created_at, ended_at)
VALUES (current_tenant(), %(backfill_id)s, %(job_id)s, %(actor_id)s, %(since)s, %(until)s, %(parallelism)s, %(reprocess)s, %(status)s,
        %(total)s, %(created_at)s, %(ended_at)s);

-- name: park_runs
INSERT INTO job_run (tenant_id, run_id, job_id, scheduled_at, assigned_at, due_at, kind, task_type, lane, job_version, trace_id, backfill_id,
                     created_at)
SELECT current_tenant(), run_id, %(job_id)s, scheduled_at, %(now)s, %(parked)s, 'BACKFILL', %(task_type)s, 'run_low', %(job_version)s,
       trace_id, %(backfill_id)s, %(now)s
  FROM unnest(%(run_ids)s::uuid[], %(scheduled_ats)s::timestamptz[], %(trace_ids)s::text[]) AS run (run_id, scheduled_at, trace_id)
ON CONFLICT (tenant_id, job_id, scheduled_at) DO NOTHING;

-- name: park_again
-- As a replay, which waits for the backfill. The states are checked again, since a user may have replayed a run meanwhile.
UPDATE job_run AS run
   SET state = 'PENDING', kind = 'BACKFILL', lane = 'run_low', generation = run.generation + 1, attempt = 0, due_at = %(parked)s,
       hinted_at = NULL, dead_at = NULL, ended_at = NULL, started_at = NULL, is_deferred = false, defer_reason = NULL,
       deferred_at = NULL, http_status = NULL, answer = NULL, last_error = NULL, task_id = NULL, backfill_id = %(backfill_id)s
  FROM unnest(%(scheduled_ats)s::timestamptz[]) AS given (scheduled_at)
 WHERE run.tenant_id = current_tenant() AND run.job_id = %(job_id)s AND run.scheduled_at = given.scheduled_at
   AND run.state IN ('SUCCESS', 'FAILED', 'TERMINATED');

-- name: backfill
SELECT tenant_id, backfill_id, job_id, actor_id, since, until, parallelism, reprocess, status, total, done, failed, created_at, ended_at
  FROM backfill WHERE tenant_id = current_tenant() AND backfill_id = %(backfill_id)s;

-- name: lock_backfill
SELECT tenant_id, backfill_id, job_id, actor_id, since, until, parallelism, reprocess, status, total, done, failed, created_at, ended_at
  FROM backfill WHERE tenant_id = current_tenant() AND backfill_id = %(backfill_id)s FOR UPDATE;

-- name: backfills
SELECT tenant_id, backfill_id, job_id, actor_id, since, until, parallelism, reprocess, status, total, done, failed, created_at, ended_at
  FROM backfill
 WHERE tenant_id = current_tenant() AND (%(job_id)s::uuid IS NULL OR job_id = %(job_id)s)
   AND (%(before)s::uuid IS NULL OR backfill_id < %(before)s)
 ORDER BY backfill_id DESC
 LIMIT %(limit)s;

-- name: progress
SELECT count(*) FILTER (WHERE state = 'SUCCESS') AS done, count(*) FILTER (WHERE state IN ('FAILED', 'TERMINATED')) AS failed,
       count(*) FILTER (WHERE state IN ('PENDING', 'RUNNING', 'RETRYING') AND due_at < %(parked)s) AS active,
       count(*) FILTER (WHERE state = 'PENDING' AND due_at >= %(parked)s) AS parked
  FROM job_run
 WHERE tenant_id = %(tenant_id)s AND backfill_id = %(backfill_id)s AND scheduled_at >= %(since)s AND scheduled_at < %(until)s;

-- name: running_backfills
-- Another releaser that holds one sees to it.
SELECT backfill.tenant_id, backfill.backfill_id, backfill.job_id, backfill.since, backfill.until, backfill.parallelism,
       CASE WHEN backfill.minute = date_trunc('minute', %(now)s::timestamptz) THEN backfill.released ELSE 0 END AS released,
       job.status AS job_status
  FROM backfill JOIN job ON job.tenant_id = backfill.tenant_id AND job.job_id = backfill.job_id
 WHERE backfill.status = 'RUNNING'
 ORDER BY backfill.created_at
 LIMIT %(limit)s
   FOR UPDATE OF backfill SKIP LOCKED;

-- name: release_runs
WITH due AS (
    SELECT tenant_id, job_id, scheduled_at FROM job_run
     WHERE tenant_id = %(tenant_id)s AND backfill_id = %(backfill_id)s AND due_at >= '9000-01-01 00:00:00+00' AND state = 'PENDING'
       AND scheduled_at >= %(since)s AND scheduled_at < %(until)s
     ORDER BY scheduled_at
     LIMIT %(limit)s
       FOR UPDATE)
UPDATE job_run AS run SET due_at = %(now)s, assigned_at = %(now)s, hinted_at = %(now)s
  FROM due
 WHERE run.tenant_id = due.tenant_id AND run.job_id = due.job_id AND run.scheduled_at = due.scheduled_at
RETURNING run.tenant_id, run.run_id, run.lane, run.due_at;

-- name: note_release
UPDATE backfill SET minute = date_trunc('minute', %(now)s::timestamptz), released = %(released)s
 WHERE tenant_id = %(tenant_id)s AND backfill_id = %(backfill_id)s;

-- name: end_backfill
UPDATE backfill SET status = %(status)s, done = %(done)s, failed = %(failed)s, ended_at = %(now)s
 WHERE tenant_id = %(tenant_id)s AND backfill_id = %(backfill_id)s AND status = 'RUNNING';

-- name: remove_parked
-- Runs that never began. Those that a backfill started again keep what they were, and end.
DELETE FROM job_run
 WHERE tenant_id = %(tenant_id)s AND backfill_id = %(backfill_id)s AND due_at >= '9000-01-01 00:00:00+00' AND state = 'PENDING'
   AND attempt = 0 AND generation = 1 AND scheduled_at >= %(since)s AND scheduled_at < %(until)s;

-- name: end_parked
UPDATE job_run SET state = 'TERMINATED', ended_at = %(now)s, due_at = %(now)s, last_error = %(reason)s
 WHERE tenant_id = %(tenant_id)s AND backfill_id = %(backfill_id)s AND due_at >= '9000-01-01 00:00:00+00' AND state = 'PENDING'
   AND scheduled_at >= %(since)s AND scheduled_at < %(until)s;

-- name: waiting_runs
SELECT run_id FROM job_run
 WHERE tenant_id = %(tenant_id)s AND backfill_id = %(backfill_id)s AND state IN ('PENDING', 'RETRYING')
   AND scheduled_at >= %(since)s AND scheduled_at < %(until)s;
