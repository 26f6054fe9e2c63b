-- name: stopped
-- Circuits that are not closed. The table has a row for each step that failed since its last success: few, if any.
SELECT clock_timestamp() AS now, pool, step, failures, opened_at, probe_at, probes_failed, last_error
  FROM (SELECT) AS one LEFT JOIN circuit ON opened_at IS NOT NULL
 ORDER BY pool, step;

-- name: add
INSERT INTO circuit (pool, step) VALUES (%(pool)s, %(step)s) ON CONFLICT (pool, step) DO NOTHING;

-- name: lock
SELECT clock_timestamp() AS now, pool, step, failures, opened_at, probe_at, probes_failed, last_error
  FROM circuit
 WHERE pool = %(pool)s AND step = %(step)s
   FOR UPDATE;

-- name: store
UPDATE circuit
   SET failures = %(failures)s, opened_at = %(opened_at)s, probe_at = %(probe_at)s, probes_failed = %(probes_failed)s,
       last_error = %(last_error)s, updated_at = clock_timestamp()
 WHERE pool = %(pool)s AND step = %(step)s;

-- name: delete
DELETE FROM circuit WHERE pool = %(pool)s AND step = %(step)s;

