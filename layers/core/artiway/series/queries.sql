-- Minute aggregates over all tenants, as `artiway_service`.

-- name: begin_pass
-- The first minute of a new system is the one that is not over yet.
INSERT INTO series_pass (closed_until) VALUES (%(minute)s) ON CONFLICT (is_only) DO NOTHING;

-- name: closed_until
SELECT closed_until FROM series_pass;

-- name: take_minute
-- Zero rows: another pass has closed this minute. The row stays locked until the commit.
UPDATE series_pass SET closed_until = %(minute)s::timestamptz + interval '1 minute' WHERE closed_until <= %(minute)s;

-- name: close_minute
-- Every state comes from the history, which is only added to: the same minute gives the same rows whenever it is computed.
-- `change` holds what changed from the minute's start until now; a BRIN index finds it.
WITH change AS MATERIALIZED (
    SELECT history.tenant_id, history.node_id, history.version, history.from_status, history.to_status, history.reason,
           history.changed_at, history.changed_at < %(until)s AS is_inside, node.pool, node.lane, node.step
      FROM node_history AS history
      -- OFFSET keeps the planner from a join that reads all nodes.
     CROSS JOIN LATERAL (SELECT pool, lane, step FROM task_node AS node
                          WHERE node.tenant_id = history.tenant_id AND node.node_id = history.node_id OFFSET 0) AS node
     WHERE history.changed_at >= %(since)s
), lane AS (
    SELECT pool, lane FROM lane_policy WHERE pool = ANY (%(pools)s)
), later AS MATERIALIZED (
    -- Their rows in task_node no longer show the end of the minute.
    SELECT DISTINCT tenant_id, node_id, pool, lane FROM change WHERE NOT is_inside
), live AS (
    SELECT node_id, pool, lane, false AS is_running FROM task_node WHERE status = 'QUEUED' AND dispatched_at IS NULL
     UNION ALL
    SELECT node_id, pool, lane, true FROM slot_in_use
), level AS MATERIALIZED (
    SELECT pool, lane, is_running
      FROM live
     WHERE NOT EXISTS (SELECT FROM later WHERE later.node_id = live.node_id)
     UNION ALL
    -- A dispatch is the only change from QUEUED to QUEUED.
    SELECT later.pool, later.lane, last.to_status = 'PROCESSING' OR last.from_status = 'QUEUED'
      FROM later
     CROSS JOIN LATERAL (SELECT from_status, to_status FROM node_history AS history
                          WHERE history.tenant_id = later.tenant_id AND history.node_id = later.node_id
                            AND history.changed_at < %(until)s
                          ORDER BY version DESC LIMIT 1) AS last
     WHERE last.to_status IN ('QUEUED', 'PROCESSING')
), started AS MATERIALIZED (
    SELECT change.pool, change.lane, extract(epoch FROM change.changed_at - ready.changed_at)::float8 AS wait_s
      FROM change
     CROSS JOIN LATERAL (SELECT changed_at FROM node_history AS history
                          WHERE history.tenant_id = change.tenant_id AND history.node_id = change.node_id
                            AND history.version < change.version AND history.from_status = 'PENDING'
                          ORDER BY version DESC LIMIT 1) AS ready
     WHERE change.is_inside AND change.to_status = 'PROCESSING'
), attempt AS MATERIALIZED (
    SELECT change.tenant_id, change.pool, change.step, began.changed_at AS began_at, change.changed_at AS ended_at,
           change.is_inside AND change.to_status = 'COMPLETED' AS is_completed
      FROM change
     CROSS JOIN LATERAL (SELECT changed_at FROM node_history AS history
                          WHERE history.tenant_id = change.tenant_id AND history.node_id = change.node_id
                            AND history.version < change.version AND history.to_status = 'PROCESSING'
                          ORDER BY version DESC LIMIT 1) AS began
     WHERE change.from_status = 'PROCESSING'
     UNION ALL
    SELECT tenant_id, pool, step, started_at, 'infinity', false
      FROM task_node
     WHERE status = 'PROCESSING'
), busy AS MATERIALIZED (
    SELECT pool, tenant_id,
           sum(extract(epoch FROM least(ended_at, %(until)s) - greatest(began_at, %(since)s)))::float8 AS seconds
      FROM attempt
     WHERE began_at < %(until)s
     GROUP BY pool, tenant_id
), ranked AS (
    SELECT pool, tenant_id, seconds, row_number() OVER (PARTITION BY pool ORDER BY seconds DESC, tenant_id) AS place
      FROM busy
     WHERE seconds > 0
), offered AS (
    -- A worker serves from its registration until a heartbeat interval after its last heartbeat.
    SELECT pool, sum(slots * extract(epoch FROM least(beat_at + make_interval(secs => %(beat_s)s), %(until)s)
                                                - greatest(registered_at, %(since)s)))::float8 AS seconds
      FROM worker
     WHERE registered_at < %(until)s AND beat_at + make_interval(secs => %(beat_s)s) > %(since)s
     GROUP BY pool
), distribution AS (
    SELECT name, labels, sum(amount) AS value, sum(n) AS weight, jsonb_object_agg(bucket, n) AS buckets
      FROM (SELECT name, labels, ceil(ln(greatest(seconds, 0.001)) / ln(%(growth)s::float8))::integer AS bucket,
                   count(*) AS n, sum(seconds) AS amount
              FROM (SELECT 'wait' AS name, jsonb_build_object('pool', pool, 'lane', lane) AS labels, wait_s AS seconds
                      FROM started
                     UNION ALL
                    SELECT 'node_duration', jsonb_build_object('step', step), extract(epoch FROM ended_at - began_at)::float8
                      FROM attempt WHERE is_completed) AS measured
             GROUP BY name, labels, bucket) AS counted
     GROUP BY name, labels
)
INSERT INTO series_minute (minute, name, labels, value, weight, buckets)
SELECT %(since)s, 'throughput', jsonb_build_object('pool', lane.pool, 'lane', lane.lane), count(change.node_id)::float8,
       NULL::float8, NULL::jsonb
  FROM lane LEFT JOIN change ON change.pool = lane.pool AND change.lane = lane.lane AND is_inside AND to_status = 'COMPLETED'
 GROUP BY lane.pool, lane.lane
 UNION ALL
-- A node that its worker returned, or that no worker claimed, has not failed.
SELECT %(since)s, 'failures', jsonb_build_object('pool', lane.pool, 'lane', lane.lane, 'status', status), count(change.node_id),
       NULL, NULL
  FROM lane CROSS JOIN unnest('{FAILED,TIMEOUT}'::text[]) AS status
  LEFT JOIN change ON change.pool = lane.pool AND change.lane = lane.lane AND is_inside AND to_status = status
                  AND from_status = 'PROCESSING' AND reason IS DISTINCT FROM 'HANDED_BACK'
 GROUP BY lane.pool, lane.lane, status
 UNION ALL
SELECT %(since)s, CASE WHEN is_running THEN 'running' ELSE 'waiting' END,
       jsonb_build_object('pool', lane.pool, 'lane', lane.lane), count(level.lane), NULL, NULL
  FROM lane CROSS JOIN unnest('{true,false}'::boolean[]) AS is_running
  LEFT JOIN level USING (pool, lane, is_running)
 GROUP BY lane.pool, lane.lane, is_running
 UNION ALL
SELECT %(since)s, name, labels, value, weight, buckets FROM distribution
 UNION ALL
SELECT %(since)s, 'wait_within_target', jsonb_build_object('lane', lane),
       count(*) FILTER (WHERE wait_s <= (%(targets)s::jsonb ->> lane)::float8), count(*), NULL
  FROM started
 WHERE %(targets)s::jsonb ? lane
 GROUP BY lane
 UNION ALL
SELECT %(since)s, 'utilisation', jsonb_build_object('pool', offered.pool),
       least(coalesce((SELECT sum(seconds) FROM busy WHERE busy.pool = offered.pool), 0), offered.seconds), offered.seconds, NULL
  FROM offered
 WHERE %(knows_workers)s AND offered.seconds > 0
 UNION ALL
SELECT %(since)s, 'share',
       jsonb_build_object('pool', pool, 'tenantId', CASE WHEN place <= %(top)s THEN tenant_id::text ELSE 'other' END),
       sum(seconds), NULL, NULL
  FROM ranked
 GROUP BY 3
ON CONFLICT (name, minute, labels) DO NOTHING;

-- name: close_runs
-- Lateness is from the time at which a run should start until the dispatcher considered it: a run that its tenant's quota defers
-- is not late. A run whose first attempt has been followed by another is left out. BRIN indexes find the minute.
WITH considered AS MATERIALIZED (
    SELECT greatest(extract(epoch FROM least(deferred_at, started_at) - assigned_at), 0)::float8 AS late_s
      FROM job_run
     WHERE started_at >= %(since)s AND started_at < %(until)s AND attempt = 1 AND generation = 1 AND kind <> 'BACKFILL'
), ended AS MATERIALIZED (
    SELECT state FROM job_run WHERE ended_at >= %(since)s AND ended_at < %(until)s
), bucket AS (
    SELECT ceil(ln(greatest(late_s, 0.001)) / ln(%(growth)s::float8))::integer AS bucket, count(*) AS n, sum(late_s) AS amount
      FROM considered GROUP BY 1
)
INSERT INTO series_minute (minute, name, labels, value, weight, buckets)
SELECT %(since)s, 'trigger_latency', '{}'::jsonb, sum(amount), sum(n), jsonb_object_agg(bucket, n) FROM bucket HAVING count(*) > 0
 UNION ALL
SELECT %(since)s, 'runs_on_time', '{}', count(*) FILTER (WHERE late_s <= %(late_s)s), count(*), NULL
  FROM considered HAVING count(*) > 0
 UNION ALL
SELECT %(since)s, 'runs_ended', jsonb_build_object('status', status), count(ended.state), NULL, NULL
  FROM unnest('{SUCCESS,FAILED,TERMINATED}'::text[]) AS status LEFT JOIN ended ON ended.state = status
 GROUP BY status
 UNION ALL
SELECT %(since)s, 'run_failures', '{}', count(*) FILTER (WHERE state = 'FAILED'), count(*), NULL
  FROM ended WHERE state IN ('SUCCESS', 'FAILED') HAVING count(*) > 0;

-- name: close_texts
-- Of the texts that ended in the minute, whose rows change no more. The first token is timed by the worker's clock, which
-- may be behind the database's. A text whose tokens nobody counted adds no time either.
WITH ended AS MATERIALIZED (
    SELECT used_output, greatest(extract(epoch FROM first_token_at - started_at), 0)::float8 AS first_token_s,
           greatest(extract(epoch FROM ended_at - first_token_at), 0)::float8 AS writing_s
      FROM generation
     WHERE ended_at >= %(since)s AND ended_at < %(until)s AND first_token_at IS NOT NULL
), bucket AS (
    SELECT ceil(ln(greatest(first_token_s, 0.001)) / ln(%(growth)s::float8))::integer AS bucket, count(*) AS n,
           sum(first_token_s) AS amount
      FROM ended GROUP BY 1
)
INSERT INTO series_minute (minute, name, labels, value, weight, buckets)
SELECT %(since)s, 'tokens_per_second', '{}'::jsonb, sum(used_output)::float8, sum(writing_s), NULL::jsonb
  FROM ended WHERE used_output > 0 HAVING count(*) > 0
 UNION ALL
SELECT %(since)s, 'first_token', '{}', sum(amount), sum(n), jsonb_object_agg(bucket, n) FROM bucket HAVING count(*) > 0;

-- name: run_backlog
-- Two partial indexes. Runs that are put off to the next minute by their tenant's rate are not due.
SELECT lane, sum(runs)::bigint AS runs
  FROM (SELECT lane, count(*) AS runs FROM job_run
         WHERE state IN ('PENDING', 'RETRYING') AND NOT is_deferred AND due_at <= %(now)s GROUP BY lane
         UNION ALL
        SELECT lane, sum(deferred + blocked) FROM job_load GROUP BY lane
         UNION ALL
        SELECT lane, 0 FROM unnest(%(lanes)s::text[]) AS lane) AS counted
 GROUP BY lane;

-- name: rows_of_minute
SELECT minute AS at, name, labels, value AS total, weight, value AS largest, value AS smallest, buckets
  FROM series_minute
 WHERE minute = %(minute)s AND name = ANY (%(names)s);

-- name: add_points
-- Levels that were read elsewhere for this minute, and what was computed from closed minutes.
INSERT INTO series_minute (minute, name, labels, value, weight)
SELECT %(minute)s, name, labels, value, weight
  FROM jsonb_to_recordset(%(points)s::jsonb) AS point (name text, labels jsonb, value float8, weight float8)
ON CONFLICT (name, minute, labels) DO NOTHING;

-- name: sum_day
-- Computed again from all minutes of the day, so that it is right however often it is called.
INSERT INTO series_day (name, day, labels, value, weight)
SELECT name, (%(minute)s AT TIME ZONE 'UTC')::date, labels, sum(value), sum(weight)
  FROM series_minute
 WHERE name = ANY (%(names)s) AND minute >= date_trunc('day', %(minute)s::timestamptz, 'UTC')
   AND minute < date_trunc('day', %(minute)s::timestamptz, 'UTC') + interval '1 day'
 GROUP BY name, labels
ON CONFLICT (name, day, labels) DO UPDATE SET value = excluded.value, weight = excluded.weight;

-- name: outcomes
SELECT name, labels, window_s, coalesce(sum(value), 0) AS good, coalesce(sum(weight), 0) AS total
  FROM series_minute, unnest(%(windows_s)s::integer[]) AS window_s
 WHERE name = ANY (%(names)s) AND minute < %(until)s
   AND minute >= %(until)s::timestamptz - make_interval(secs => %(longest_s)s)
   AND minute >= %(until)s::timestamptz - make_interval(secs => window_s)
 GROUP BY name, labels, window_s;

-- name: outcomes_of_days
SELECT name, labels, sum(value) AS good, sum(weight) AS total
  FROM series_day
 WHERE name = ANY (%(names)s) AND day > (%(until)s AT TIME ZONE 'UTC')::date - %(days)s::integer
 GROUP BY name, labels;

-- name: delete_minutes
DELETE FROM series_minute
 WHERE ctid = ANY (ARRAY (SELECT ctid FROM series_minute WHERE minute < %(before)s ORDER BY minute LIMIT %(limit)s));

-- name: delete_days
DELETE FROM series_day WHERE day < (%(before)s AT TIME ZONE 'UTC')::date;

-- name: read_steps
-- Tenants are ranked again over the whole range: each minute has a choice of its own.
WITH found AS (
    SELECT minute, labels, value, weight
      FROM series_minute
     WHERE name = %(name)s AND minute >= %(since)s AND minute < %(until)s
), ranked AS (
    SELECT labels, row_number() OVER (PARTITION BY labels ->> 'pool' ORDER BY sum(value) DESC, labels) AS place
      FROM found
     WHERE labels ? 'tenantId' AND labels ->> 'tenantId' <> 'other'
     GROUP BY labels
)
SELECT date_bin(make_interval(secs => %(step_s)s), minute, 'epoch') AS at,
       CASE WHEN place > %(top)s THEN jsonb_set(found.labels, '{tenantId}', '"other"') ELSE found.labels END AS labels,
       sum(value) AS total, sum(weight) AS weight, max(value) AS largest, min(value) AS smallest
  FROM found LEFT JOIN ranked USING (labels)
 GROUP BY 1, 2
 ORDER BY 1, 2;

-- name: read_distributions
SELECT at, labels, jsonb_object_agg(bucket, n) AS buckets
  FROM (SELECT date_bin(make_interval(secs => %(step_s)s), minute, 'epoch') AS at, labels, bucket.key AS bucket,
               sum(bucket.value::bigint)::bigint AS n
          FROM series_minute CROSS JOIN LATERAL jsonb_each_text(buckets) AS bucket
         WHERE name = %(name)s AND minute >= %(since)s AND minute < %(until)s
         GROUP BY 1, 2, 3) AS merged
 GROUP BY at, labels
 ORDER BY at, labels;

-- name: newest_minute
SELECT minute AS at, name, labels, value AS total, weight, value AS largest, value AS smallest, buckets
  FROM series_minute
 WHERE minute = %(minute)s
 ORDER BY name, labels;
