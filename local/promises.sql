-- How long tasks took against what was promised when they were submitted.

-- name: kept_promises
SELECT count(*)::integer AS tasks,
       percentile_cont(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (
           ORDER BY extract(epoch FROM ended_at - created_at)::float8 / greatest(1, eta_s)) AS quartiles
  FROM task
 WHERE status = 'COMPLETED' AND run = 1 AND eta_s IS NOT NULL AND created_at >= %(since)s;
