-- name: ensure_guard
INSERT INTO run_guard DEFAULT VALUES ON CONFLICT DO NOTHING;

-- name: guard
SELECT shed, late_since, full_since, calm_since, changed_at, latency_s, backlog, read_at, clock_timestamp() AS now FROM run_guard;

-- name: lock_guard
SELECT shed, late_since, full_since, calm_since, changed_at, latency_s, backlog, read_at, clock_timestamp() AS now
  FROM run_guard FOR UPDATE SKIP LOCKED;

-- name: save_guard
UPDATE run_guard
   SET shed = %(shed)s, lanes = %(lanes)s, late_since = %(late_since)s, full_since = %(full_since)s, calm_since = %(calm_since)s,
       changed_at = %(changed_at)s, latency_s = %(latency_s)s, backlog = %(backlog)s, read_at = %(now)s;

-- name: shed_lanes
SELECT lanes FROM run_guard;

-- name: latency
-- Runs that were considered in the last minute, and those that should have been: a dispatcher that stands still is late too.
SELECT coalesce(percentile_cont(0.95) WITHIN GROUP (ORDER BY late_s), 0)::float8 AS latency_s
  FROM (SELECT greatest(extract(epoch FROM least(deferred_at, started_at) - assigned_at), 0) AS late_s
          FROM job_run
         WHERE started_at >= %(since)s AND started_at <= %(now)s AND attempt = 1 AND generation = 1 AND kind <> 'BACKFILL'
         UNION ALL
        SELECT extract(epoch FROM %(now)s::timestamptz - due_at)
          FROM (SELECT due_at FROM job_run
                 WHERE state IN ('PENDING', 'RETRYING') AND NOT is_deferred AND due_at <= %(now)s
                 ORDER BY due_at
                 LIMIT 20000) AS waiting) AS late;

-- name: backlog
SELECT coalesce(sum(runs), 0)::bigint AS runs
  FROM (SELECT count(*) AS runs FROM job_run
         WHERE state IN ('PENDING', 'RETRYING') AND NOT is_deferred AND due_at <= %(now)s AND NOT lane = ANY (%(shed)s::text[])
         UNION ALL
        SELECT sum(deferred + blocked) FROM job_load WHERE NOT lane = ANY (%(shed)s::text[])) AS counted;

-- name: circuits
SELECT tenant_id, target, state, until, changed_at, openings, probes, runs, failures FROM run_circuit ORDER BY tenant_id, target;

-- name: outcomes
-- BRIN finds the last minutes. A circuit counts what ended since it changed.
WITH ended AS MATERIALIZED (
    SELECT run.tenant_id, run.job_id, run.task_type, run.state, run.ended_at, run.started_at
      FROM job_run AS run
     WHERE run.ended_at >= %(since)s AND run.ended_at <= %(now)s AND run.state IN ('SUCCESS', 'FAILED')),
targets AS (
    SELECT ended.tenant_id, job.target_host AS target, ended.state, ended.started_at, ended.tenant_id AS failing
      FROM ended JOIN job ON job.tenant_id = ended.tenant_id AND job.job_id = ended.job_id
     WHERE ended.task_type = 'HTTP' AND job.target_host IS NOT NULL
     UNION ALL
    SELECT '00000000-0000-0000-0000-000000000000', task_type, state, started_at, tenant_id FROM ended WHERE task_type <> 'HTTP')
SELECT targets.tenant_id, targets.target, count(*) AS runs, count(*) FILTER (WHERE targets.state = 'FAILED') AS failures,
       count(DISTINCT failing) FILTER (WHERE targets.state = 'FAILED') AS tenants
  FROM targets LEFT JOIN run_circuit AS circuit USING (tenant_id, target)
 WHERE circuit.changed_at IS NULL OR targets.started_at >= circuit.changed_at
 GROUP BY targets.tenant_id, targets.target;

-- name: save_circuit
INSERT INTO run_circuit (tenant_id, target, state, until, changed_at, openings, probes, runs, failures)
VALUES (%(tenant_id)s, %(target)s, %(state)s, %(until)s, %(changed_at)s, %(openings)s, %(probes)s, %(runs)s, %(failures)s)
ON CONFLICT (tenant_id, target) DO UPDATE
   SET state = excluded.state, until = excluded.until, changed_at = excluded.changed_at, openings = excluded.openings,
       probes = excluded.probes, runs = excluded.runs, failures = excluded.failures;

-- name: forget_circuit
DELETE FROM run_circuit WHERE tenant_id = %(tenant_id)s AND target = %(target)s;

-- name: use_probes
UPDATE run_circuit SET probes = probes - %(count)s WHERE tenant_id = %(tenant_id)s AND target = %(target)s;

-- name: hosts
SELECT tenant_id, job_id, target_host FROM job
 WHERE (tenant_id, job_id) IN (SELECT * FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[]));

-- name: hold_runs
UPDATE job_run AS run
   SET is_deferred = false, defer_reason = 'circuit_open', deferred_at = coalesce(run.deferred_at, %(now)s), due_at = given.due_at,
       hinted_at = NULL
  FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[], %(scheduled_ats)s::timestamptz[], %(due_ats)s::timestamptz[])
       AS given (tenant_id, job_id, scheduled_at, due_at)
 WHERE run.tenant_id = given.tenant_id AND run.job_id = given.job_id AND run.scheduled_at = given.scheduled_at
   AND run.state IN ('PENDING', 'RETRYING');
