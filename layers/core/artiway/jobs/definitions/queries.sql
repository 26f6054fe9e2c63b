-- name: now
SELECT clock_timestamp() AS now;

-- name: tenant_policy
SELECT policy.tenant_id, policy.tier, policy.status, policy.priority, policy.weight, tenant.job_concurrency, tenant.job_per_minute, tenant.job_period_s
  FROM tenant_policy AS policy JOIN tenant USING (tenant_id)
 WHERE policy.tenant_id = current_tenant();

-- name: lock_jobs
-- The number of a tenant's jobs and secrets is counted and raised by one transaction at a time.
SELECT pg_advisory_xact_lock(12, hashtext(current_tenant()::text));

-- name: owner
SELECT user_id FROM user_role WHERE tenant_id = current_tenant() AND role = 'owner' ORDER BY user_id LIMIT 1;

-- name: count_jobs
SELECT count(*) AS number FROM job WHERE tenant_id = current_tenant() AND status <> 'DELETED';

-- name: insert_job
INSERT INTO job (tenant_id, job_id, user_id, name, status, version, schedule_type, expr, at, timezone, tzdata_version, jitter_s, starts_at,
                 ends_at, next_fire_at, last_fire_at, task_type, task, priority, max_attempts, base_delay_ms, max_delay_ms,
                 concurrency_limit, overlap_policy, misfire_policy, catchup_window_s, timeout_s, note, paused_by, paused_at, created_at,
                 updated_at)
VALUES (current_tenant(), %(job_id)s, %(user_id)s, %(name)s, %(status)s, %(version)s, %(schedule_type)s, %(expr)s, %(at)s, %(timezone)s,
        %(tzdata_version)s, %(jitter_s)s, %(starts_at)s, %(ends_at)s, %(next_fire_at)s, %(last_fire_at)s, %(task_type)s, %(task)s,
        %(priority)s, %(max_attempts)s, %(base_delay_ms)s, %(max_delay_ms)s, %(concurrency_limit)s, %(overlap_policy)s,
        %(misfire_policy)s, %(catchup_window_s)s, %(timeout_s)s, %(note)s, %(paused_by)s, %(paused_at)s, %(created_at)s, %(updated_at)s);

-- name: update_job
UPDATE job
   SET name = %(name)s, status = %(status)s, version = %(version)s, schedule_type = %(schedule_type)s, expr = %(expr)s, at = %(at)s,
       timezone = %(timezone)s, tzdata_version = %(tzdata_version)s, jitter_s = %(jitter_s)s, starts_at = %(starts_at)s,
       ends_at = %(ends_at)s, next_fire_at = %(next_fire_at)s, last_fire_at = %(last_fire_at)s, task_type = %(task_type)s,
       task = %(task)s, priority = %(priority)s, max_attempts = %(max_attempts)s, base_delay_ms = %(base_delay_ms)s,
       max_delay_ms = %(max_delay_ms)s, concurrency_limit = %(concurrency_limit)s, overlap_policy = %(overlap_policy)s,
       misfire_policy = %(misfire_policy)s, catchup_window_s = %(catchup_window_s)s, timeout_s = %(timeout_s)s, note = %(note)s,
       paused_by = %(paused_by)s, paused_at = %(paused_at)s, updated_at = %(updated_at)s
 WHERE tenant_id = current_tenant() AND job_id = %(job_id)s;

-- name: job
SELECT *, ARRAY(SELECT predecessor_id FROM job_after AS edge
              WHERE edge.tenant_id = job.tenant_id AND edge.job_id = job.job_id ORDER BY edge.place) AS after
  FROM job WHERE tenant_id = current_tenant() AND job_id = %(job_id)s AND status <> 'DELETED';

-- name: lock_job
SELECT *, ARRAY(SELECT predecessor_id FROM job_after AS edge
              WHERE edge.tenant_id = job.tenant_id AND edge.job_id = job.job_id ORDER BY edge.place) AS after
  FROM job WHERE tenant_id = current_tenant() AND job_id = %(job_id)s AND status <> 'DELETED' FOR UPDATE;

-- name: jobs
SELECT *, ARRAY(SELECT predecessor_id FROM job_after AS edge
              WHERE edge.tenant_id = job.tenant_id AND edge.job_id = job.job_id ORDER BY edge.place) AS after
  FROM job
 WHERE tenant_id = current_tenant() AND status <> 'DELETED'
   AND (%(status)s::text IS NULL OR status = %(status)s)
   AND (%(name)s::text IS NULL OR name = %(name)s)
   AND (%(before)s::uuid IS NULL OR job_id < %(before)s)
 ORDER BY job_id DESC
 LIMIT %(limit)s;

-- name: lock_by_name
SELECT *, ARRAY(SELECT predecessor_id FROM job_after AS edge
              WHERE edge.tenant_id = job.tenant_id AND edge.job_id = job.job_id ORDER BY edge.place) AS after
  FROM job
 WHERE tenant_id = current_tenant() AND status <> 'DELETED' AND name = ANY(%(names)s)
 ORDER BY job_id
   FOR UPDATE;

-- name: insert_change
WITH before AS (
    UPDATE job_change SET superseded_at = %(at)s
     WHERE tenant_id = current_tenant() AND job_id = %(job_id)s AND version = %(version)s - 1)
INSERT INTO job_change (tenant_id, job_id, version, action, actor_id, note, schedule, at)
VALUES (current_tenant(), %(job_id)s, %(version)s, %(action)s, %(actor_id)s, %(note)s, %(schedule)s, %(at)s);

-- name: insert_fire_notes
INSERT INTO job_fire_note (tenant_id, job_id, first_at, last_at, outcome, fires, reason)
SELECT current_tenant(), %(job_id)s, at, at, %(outcome)s, 1, %(reason)s FROM unnest(%(times)s::timestamptz[]) AS at
ON CONFLICT (tenant_id, job_id, first_at, outcome) DO NOTHING;

-- name: known_secrets
-- A job that names a secret and the deletion of that secret wait for each other.
SELECT name FROM job_secret WHERE tenant_id = current_tenant() AND name = ANY(%(names)s) FOR SHARE;

-- name: has_signing_key
SELECT EXISTS (SELECT FROM job_signing_key WHERE tenant_id = current_tenant()) AS is_found;

-- name: insert_signing_key
INSERT INTO job_signing_key (tenant_id, ciphertext) VALUES (current_tenant(), %(ciphertext)s) ON CONFLICT DO NOTHING;

-- name: rotate_signing_key
INSERT INTO job_signing_key (tenant_id, ciphertext) VALUES (current_tenant(), %(ciphertext)s)
ON CONFLICT (tenant_id) DO UPDATE
   SET previous = job_signing_key.ciphertext, ciphertext = EXCLUDED.ciphertext, created_at = clock_timestamp(),
       previous_until = clock_timestamp() + make_interval(secs => %(keep_s)s)
RETURNING previous_until;

-- name: started_in_minute
-- Runs that the tenant started in this minute, and runs triggered by hand that will start in it.
SELECT coalesce((SELECT started FROM job_minute
                  WHERE tenant_id = current_tenant() AND minute = date_trunc('minute', clock_timestamp())), 0)
     + (SELECT count(*) FROM job_run
         WHERE tenant_id = current_tenant() AND kind = 'MANUAL' AND state = 'PENDING' AND attempt = 0 AND NOT is_deferred
           AND scheduled_at >= date_trunc('minute', clock_timestamp())
           AND due_at < date_trunc('minute', clock_timestamp()) + interval '1 minute') AS started;

-- name: shed_lanes
SELECT lanes FROM run_guard;

-- name: secrets
SELECT name, created_at, updated_at FROM job_secret WHERE tenant_id = current_tenant() ORDER BY name;

-- name: count_other_secrets
SELECT count(*) AS number FROM job_secret WHERE tenant_id = current_tenant() AND name <> %(name)s;

-- name: put_secret
INSERT INTO job_secret (tenant_id, name, ciphertext) VALUES (current_tenant(), %(name)s, %(ciphertext)s)
ON CONFLICT (tenant_id, name) DO UPDATE SET ciphertext = EXCLUDED.ciphertext, updated_at = clock_timestamp()
RETURNING name, created_at, updated_at;

-- name: lock_secret
SELECT name FROM job_secret WHERE tenant_id = current_tenant() AND name = %(name)s FOR UPDATE;

-- name: delete_secret
DELETE FROM job_secret WHERE tenant_id = current_tenant() AND name = %(name)s;

-- name: jobs_naming
-- Candidates: the text of the task contains the reference. The service reads headers and body.
SELECT *, ARRAY(SELECT predecessor_id FROM job_after AS edge
              WHERE edge.tenant_id = job.tenant_id AND edge.job_id = job.job_id ORDER BY edge.place) AS after
  FROM job
 WHERE tenant_id = current_tenant() AND status IN ('ACTIVE', 'PAUSED', 'COMPLETED') AND task_type IN ('HTTP', 'FLOW')
   AND position('secret:' || %(name)s IN task::text) > 0
 ORDER BY job_id;

-- name: run
SELECT * FROM job_run
 WHERE tenant_id = current_tenant() AND run_id = %(run_id)s AND scheduled_at >= %(since)s AND scheduled_at < %(until)s;

-- name: runs
-- An id begins with the scheduled time, so this order is that of the scheduled times.
SELECT * FROM job_run
 WHERE tenant_id = current_tenant()
   AND (%(state)s::text IS NULL OR state = %(state)s)
   AND (%(kind)s::text IS NULL OR kind = %(kind)s)
   AND (NOT %(is_dead)s OR dead_at IS NOT NULL)
   AND (%(since)s::timestamptz IS NULL OR scheduled_at >= %(since)s)
   AND (%(until)s::timestamptz IS NULL OR scheduled_at < %(until)s)
   AND (%(before)s::uuid IS NULL OR run_id < %(before)s)
 ORDER BY run_id DESC
 LIMIT %(limit)s;

-- name: runs_of_job
SELECT * FROM job_run
 WHERE tenant_id = current_tenant() AND job_id = %(job_id)s
   AND (%(state)s::text IS NULL OR state = %(state)s)
   AND (%(kind)s::text IS NULL OR kind = %(kind)s)
   AND (NOT %(is_dead)s OR dead_at IS NOT NULL)
   AND (%(since)s::timestamptz IS NULL OR scheduled_at >= %(since)s)
   AND (%(until)s::timestamptz IS NULL OR scheduled_at < %(until)s)
   AND (%(before)s::uuid IS NULL OR run_id < %(before)s)
 ORDER BY scheduled_at DESC
 LIMIT %(limit)s;

-- name: log_lines
SELECT log_id, at, attempt, level, message FROM run_log
 WHERE tenant_id = current_tenant() AND run_id = %(run_id)s AND at >= %(since)s
   AND (%(after)s::uuid IS NULL
        OR (at, log_id) > (SELECT last.at, last.log_id FROM run_log AS last
                            WHERE last.tenant_id = current_tenant() AND last.run_id = %(run_id)s AND last.log_id = %(after)s LIMIT 1))
 ORDER BY at, log_id
 LIMIT %(limit)s;

-- name: is_job_there
SELECT EXISTS (SELECT FROM job WHERE tenant_id = current_tenant() AND job_id = %(job_id)s AND status <> 'DELETED') AS is_found;

-- name: search_runs
-- Of all tenants, for operators.
SELECT run.*, job.name AS job_name FROM job_run AS run LEFT JOIN job USING (tenant_id, job_id)
 WHERE (%(tenant_id)s::uuid IS NULL OR run.tenant_id = %(tenant_id)s)
   AND (%(job_id)s::uuid IS NULL OR run.job_id = %(job_id)s)
   AND (%(state)s::text IS NULL OR run.state = %(state)s)
   AND (%(kind)s::text IS NULL OR run.kind = %(kind)s)
   AND (NOT %(is_dead)s OR run.dead_at IS NOT NULL)
   AND (%(since)s::timestamptz IS NULL OR run.scheduled_at >= %(since)s)
   AND (%(until)s::timestamptz IS NULL OR run.scheduled_at < %(until)s)
   AND (%(before)s::uuid IS NULL OR run.run_id < %(before)s)
 ORDER BY run.run_id DESC
 LIMIT %(limit)s;

-- name: tenants_of_runs
SELECT tenant_id, run_id FROM job_run
 WHERE run_id = ANY(%(run_ids)s) AND scheduled_at >= %(since)s AND scheduled_at < %(until)s;

-- name: count_dead
SELECT count(*) AS number FROM job_run WHERE dead_at IS NOT NULL;

-- name: dead_runs
SELECT run.*, job.name AS job_name FROM job_run AS run LEFT JOIN job USING (tenant_id, job_id)
 WHERE run.dead_at IS NOT NULL
 ORDER BY run.dead_at, run.run_id
 LIMIT %(limit)s;

-- name: discard_dead
UPDATE job_run SET dead_at = NULL
 WHERE tenant_id = %(tenant_id)s AND run_id = ANY(%(run_ids)s) AND dead_at IS NOT NULL
RETURNING run_id;
