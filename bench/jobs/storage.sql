-- name: fill_jobs
INSERT INTO job (tenant_id, job_id, user_id, name, schedule_type, expr, timezone, tzdata_version, task_type, task, priority,
                 max_attempts, base_delay_ms, max_delay_ms, concurrency_limit, overlap_policy, misfire_policy, catchup_window_s,
                 timeout_s)
SELECT %(tenant)s, gen_random_uuid(), %(user)s, 'job ' || n, 'CRON', '* * * * *', 'UTC', %(tzdata)s, 'HTTP',
       '{"url": "https://shop.example/hook"}', 'NORMAL', 3, 1000, 300000, 10, 'ALLOW_ALL', 'FIRE_ONCE', 60, 30
  FROM generate_series(1, %(jobs)s) AS n;

-- name: fill_runs
INSERT INTO job_run (tenant_id, run_id, job_id, scheduled_at, assigned_at, due_at, hinted_at, kind, state, task_type, lane, job_version,
                     attempt, started_at, ended_at, http_status, answer, trace_id, created_at)
SELECT tenant_id, (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(random()::text), 1, 3)
                   || 'a' || substr(md5(random()::text), 1, 15))::uuid,
       job_id, at, at, at, at - interval '80 s', 'SCHEDULED', 'SUCCESS', 'HTTP', 'run_normal', 1, 1 + (random() < 0.05)::integer,
       at + random() * interval '1 s', at + interval '2 s', 200, '{"ok": true, "expired": ' || (random() * 1000)::integer || '}',
       '1-' || substr(md5(random()::text), 1, 8) || '-' || substr(md5(random()::text), 1, 24), at - interval '85 s'
  FROM (SELECT tenant_id, job_id, row_number() OVER () AS n FROM job) AS job
 CROSS JOIN LATERAL (SELECT %(day)s::timestamptz + number * interval '10 minutes' + n * interval '1 s' AS at
                       FROM generate_series(0, %(each)s - 1) AS number) AS times;

-- name: fill_results
INSERT INTO run_result (tenant_id, run_id, generation, attempt, outcome, http_status, answer, elapsed_ms, at)
SELECT tenant_id, run_id, 1, attempt, 'SUCCEEDED', 200, answer, (random() * 900)::integer, ended_at FROM job_run;

-- name: fill_logs
INSERT INTO run_log (tenant_id, run_id, log_id, at, attempt, level, message)
SELECT tenant_id, run_id, gen_random_uuid(), ended_at, attempt, 'INFO',
       'attempt ' || attempt || ' succeeded HTTP 200 in ' || (random() * 900)::integer || ' ms'
  FROM job_run CROSS JOIN generate_series(1, 2);
