-- Finished tasks of a year with 7 nodes each, as the platform leaves them: 90 % completed, 6 % partial, 3 % failed, 1 % cancelled.
-- Their holds, ledger, history, events, pictures and deliveries agree, so that every invariant holds.

-- name: tenants
INSERT INTO tenant (tenant_id, name, tier) SELECT md5('tenant' || n)::uuid, 'Bench ' || n, 'vip' FROM generate_series(1, 100) AS n;

-- name: users
INSERT INTO app_user (tenant_id, user_id, email)
SELECT md5('tenant' || (n % 100 + 1))::uuid, md5('user' || n)::uuid, n || '@example.com' FROM generate_series(0, 999) AS n;

-- name: tasks
INSERT INTO task (tenant_id, task_id, user_id, tool, hold_id, lane, pool, price_points, charged_points, status, event_sequence,
                  created_at, started_at, ended_at)
SELECT md5('tenant' || (n % 1000 % 100 + 1))::uuid, md5('task' || n)::uuid, md5('user' || n % 1000)::uuid, 'flow',
       md5('hold' || n)::uuid, 'vip_short', 'gpu', 7,
       CASE WHEN n % 100 < 90 THEN 7 WHEN n % 100 < 96 THEN 6 ELSE 0 END,
       CASE WHEN n % 100 < 90 THEN 'COMPLETED' WHEN n % 100 < 96 THEN 'PARTIAL' WHEN n % 100 < 99 THEN 'FAILED' ELSE 'CANCELLED' END,
       9, at, at, at + interval '1 minute'
  FROM (SELECT n, now() - interval '1 day' - interval '364 days' * (1 - n::float8 / %(tasks)s) AS at
          FROM generate_series(1, %(tasks)s) AS n) AS made;

-- name: nodes
INSERT INTO task_node (tenant_id, node_id, task_id, user_id, position, name, type, step, lane, pool, cost_us, price_points, is_result,
                       is_charged, status, version, attempt, in_degree, ready_at, dispatched_at, started_at, worker_id, progress,
                       gpu_us, created_at, ended_at)
SELECT tenant_id, md5(task_id::text || k)::uuid, task_id, user_id, k, 'n' || k, 'cutout', 'cutout', lane, pool, 1000000, 1, k > 3,
       state = 'COMPLETED', state, CASE state WHEN 'CANCELLED' THEN 1 ELSE 4 END, CASE state WHEN 'CANCELLED' THEN 0 ELSE 1 END,
       CASE WHEN state = 'CANCELLED' AND k > 0 THEN 1 ELSE 0 END,
       CASE WHEN state <> 'CANCELLED' THEN created_at END, CASE WHEN state <> 'CANCELLED' THEN created_at END,
       CASE WHEN state <> 'CANCELLED' THEN created_at END, CASE WHEN state <> 'CANCELLED' THEN 'worker-1' END,
       CASE WHEN state = 'COMPLETED' THEN 100 ELSE 0 END, 1000000, created_at, ended_at
  FROM (SELECT task.*, k,
               CASE WHEN task.status = 'COMPLETED' THEN 'COMPLETED'
                    WHEN task.status = 'PARTIAL' THEN CASE WHEN k = 6 THEN 'FAILED' ELSE 'COMPLETED' END
                    WHEN task.status = 'FAILED' AND k = 0 THEN 'FAILED' ELSE 'CANCELLED' END AS state
          FROM task CROSS JOIN generate_series(0, 6) AS k) AS made;

-- name: dependencies
-- 3 deep: 0 before 1, 2 and 3; these before 4, 5 and 6.
INSERT INTO node_dependency (tenant_id, node_id, depends_on_id)
SELECT tenant_id, md5(task_id::text || k)::uuid, md5(task_id::text || greatest(k - 3, 0))::uuid
  FROM task CROSS JOIN generate_series(1, 6) AS k;

-- name: history
INSERT INTO node_history (tenant_id, node_id, version, from_status, to_status, attempt, changed_at)
SELECT tenant_id, node_id, v, CASE WHEN v > 0 THEN 'x' END,
       CASE WHEN v = version THEN status ELSE (ARRAY['PENDING', 'QUEUED', 'QUEUED', 'PROCESSING'])[v + 1] END, attempt, ended_at
  FROM task_node CROSS JOIN LATERAL generate_series(0, version) AS v
 ORDER BY ended_at;

-- name: events
INSERT INTO task_event (tenant_id, task_id, sequence, event, body)
SELECT tenant_id, task_id, sequence, 'completed', '{"node": "n1", "progress": 100, "attempt": 1}' FROM task CROSS JOIN generate_series(1, 9) AS sequence;

-- name: artefacts
INSERT INTO artefact (tenant_id, artefact_id, task_id, node_id, name, key, content_type, width, height, bytes, is_result, created_at,
                      expires_at, cleanup_status)
SELECT tenant_id, node_id, task_id, node_id, 'picture', 'outputs/' || tenant_id || '/' || node_id, 'image/png', 1024, 1024, 900000,
       is_result, ended_at, ended_at + interval '30 days', CASE WHEN ended_at + interval '30 days' < now() THEN 1 ELSE 0 END
  FROM task_node WHERE status = 'COMPLETED';

-- name: holds
INSERT INTO points_hold (tenant_id, hold_id, user_id, amount, charged, status, created_at, expires_at, ended_at)
SELECT tenant_id, hold_id, user_id, 7, charged_points, CASE WHEN charged_points > 0 THEN 'CONFIRMED' ELSE 'CANCELLED' END,
       created_at, created_at, ended_at
  FROM task;

-- name: ledger
WITH spent AS (
    SELECT task.*, row_number() OVER own AS place, sum(charged_points) OVER own AS charged
      FROM task WINDOW own AS (PARTITION BY user_id ORDER BY created_at, task_id)
), entry AS (
    SELECT tenant_id, user_id, 2 * place AS version, 'FREEZE' AS kind, -7 AS balance_delta, 7 AS frozen_delta,
           1000000 - charged + charged_points - 7 AS balance, 7 AS frozen, hold_id, task_id, created_at
      FROM spent
     UNION ALL
    SELECT tenant_id, user_id, 2 * place + 1, CASE WHEN charged_points > 0 THEN 'CONFIRM' ELSE 'CANCEL' END, 7 - charged_points, -7,
           1000000 - charged, 0, hold_id, task_id, ended_at
      FROM spent
     UNION ALL
    SELECT tenant_id, user_id, 1, 'GIFT', 1000000, 0, 1000000, 0, NULL, NULL, now() - interval '366 days' FROM app_user
)
INSERT INTO points_ledger (tenant_id, user_id, version, entry_id, kind, balance_delta, frozen_delta, balance, frozen, hold_id, reference,
                           idempotency_key, created_at)
SELECT tenant_id, user_id, version, md5(user_id::text || version)::uuid, kind, balance_delta, frozen_delta, balance, frozen, hold_id,
       coalesce('task:' || task_id, 'gift'), user_id || ':' || version, created_at
  FROM entry
 ORDER BY created_at;

-- name: accounts
INSERT INTO points_account (tenant_id, user_id, balance, frozen, version)
SELECT DISTINCT ON (tenant_id, user_id) tenant_id, user_id, balance, frozen, version
  FROM points_ledger
 ORDER BY tenant_id, user_id, version DESC;

-- name: webhooks
INSERT INTO webhook (tenant_id, webhook_id, url, secret) SELECT tenant_id, tenant_id, 'https://example.com/hook', 's' FROM tenant;

-- name: deliveries
INSERT INTO webhook_delivery (tenant_id, delivery_id, webhook_id, event, body, status, attempts, next_try_at, created_at, delivered_at,
                              task_id, run)
SELECT tenant_id, task_id, tenant_id, 'task.completed', repeat('x', 600), 'DELIVERED', 1, ended_at, ended_at, ended_at, task_id, 1
  FROM task;

-- name: passed
INSERT INTO invariant_pass (clean_at) VALUES (now());

-- name: minute
-- 25 tasks that ended in the last minute of the checked time.
WITH recent AS (SELECT task_id, tenant_id FROM task ORDER BY ended_at DESC LIMIT 25),
     nodes AS (UPDATE node_history SET changed_at = clock_timestamp()
                WHERE node_id IN (SELECT node_id FROM task_node WHERE task_id IN (SELECT task_id FROM recent)) RETURNING 1)
UPDATE points_ledger SET created_at = clock_timestamp() WHERE reference IN (SELECT 'task:' || task_id FROM recent);

-- name: read
SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint AS rows FROM pg_stat_user_tables;

-- name: blocks
SELECT sum(coalesce(heap_blks_read, 0) + coalesce(heap_blks_hit, 0) + coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0))::bigint AS blocks
  FROM pg_statio_user_tables;

-- name: ledger_bytes
SELECT (pg_total_relation_size('points_ledger') / count(*))::bigint AS bytes FROM points_ledger;
