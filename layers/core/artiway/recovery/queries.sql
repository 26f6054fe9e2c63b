-- Rows that wait too long. Each query has a partial index. The sweep checks each row again under the lock of its task.

-- name: expired_leases
SELECT node.node_id, node.tenant_id, node.task_id, node.attempt, task.tool,
       extract(epoch FROM clock_timestamp() - node.lease_until)::float8 AS overdue_s
  FROM task_node AS node
  JOIN task ON task.task_id = node.task_id
 WHERE node.status = 'PROCESSING' AND node.lease_until < clock_timestamp()
 ORDER BY node.lease_until, node.node_id
 LIMIT %(limit)s;

-- name: count_leases
SELECT count(*) AS held FROM task_node WHERE status = 'PROCESSING';

-- name: unclaimed
SELECT node.node_id, node.tenant_id, node.task_id, node.attempt, task.tool,
       extract(epoch FROM clock_timestamp() - node.dispatched_at)::float8 AS overdue_s
  FROM task_node AS node
  JOIN task ON task.task_id = node.task_id
 WHERE node.status = 'QUEUED' AND node.dispatched_at IS NOT NULL
   AND node.hinted_at < clock_timestamp() - make_interval(secs => %(age_s)s)
 ORDER BY node.hinted_at, node.node_id
 LIMIT %(limit)s;

-- name: stopped
-- Nodes that wait for a stopped step. Without an open circuit no node is read.
SELECT node.node_id, node.tenant_id, node.task_id, node.attempt, task.tool,
       extract(epoch FROM clock_timestamp() - greatest(node.ready_at, circuit.opened_at))::float8 AS overdue_s
  FROM circuit
 CROSS JOIN LATERAL (SELECT node_id, tenant_id, task_id, attempt, ready_at
                       FROM task_node
                      WHERE task_node.pool = circuit.pool AND task_node.step = circuit.step
                        AND task_node.status = 'QUEUED' AND task_node.dispatched_at IS NULL
                        AND task_node.ready_at < clock_timestamp() - make_interval(secs => %(age_s)s)
                      ORDER BY ready_at
                      LIMIT %(limit)s) AS node
  JOIN task ON task.task_id = node.task_id
 WHERE circuit.opened_at < clock_timestamp() - make_interval(secs => %(age_s)s)
 ORDER BY overdue_s DESC, node.node_id
 LIMIT %(limit)s;

-- name: resend_work_messages
-- The same attempt again: the first claim gets it.
UPDATE task_node SET hinted_at = clock_timestamp()
 WHERE node_id = ANY (%(node_ids)s::uuid[]) AND status = 'QUEUED' AND dispatched_at IS NOT NULL
   AND hinted_at < clock_timestamp() - make_interval(secs => %(age_s)s)
RETURNING node_id, tenant_id, task_id, pool, type, attempt,
          (SELECT trace_id FROM task WHERE task.task_id = task_node.task_id) AS trace_id;

-- name: unready
SELECT node_id, tenant_id, task_id, lane, (SELECT trace_id FROM task WHERE task.task_id = task_node.task_id) AS trace_id
  FROM task_node
 WHERE status = 'PENDING' AND in_degree = 0 AND not_before < clock_timestamp() - make_interval(secs => %(age_s)s)
 ORDER BY not_before, node_id
 LIMIT %(limit)s;

-- name: long_running
SELECT node.node_id, node.tenant_id, node.task_id, node.attempt, task.tool,
       extract(epoch FROM clock_timestamp() - node.started_at)::float8 AS overdue_s
  FROM task_node AS node
  JOIN task ON task.task_id = node.task_id
 WHERE node.status = 'PROCESSING' AND node.started_at < clock_timestamp() - make_interval(secs => %(age_s)s)
 ORDER BY node.started_at, node.node_id
 LIMIT %(limit)s;

-- name: stale_executions
UPDATE task SET execution_asked_at = clock_timestamp()
 WHERE task_id IN (SELECT task_id FROM task
                    WHERE ended_at IS NULL AND execution_asked_at < clock_timestamp() - make_interval(secs => %(age_s)s)
                    ORDER BY execution_asked_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
RETURNING tenant_id, task_id;

-- name: answerable_tokens
SELECT waiting.tenant_id, waiting.token_id, waiting.node_id, waiting.token, node.status
  FROM node_token AS waiting
  JOIN task_node AS node ON node.node_id = waiting.node_id
 WHERE waiting.issued_at < clock_timestamp() - make_interval(secs => %(age_s)s)
   AND (node.status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED') OR waiting.kind = 'gate' AND node.in_degree = 0)
 ORDER BY waiting.token_id
 LIMIT %(limit)s;

-- name: finished_tasks
-- Tasks that should have ended with their last node.
SELECT task.tenant_id, task.task_id
  FROM task
 WHERE ended_at IS NULL AND created_at < clock_timestamp() - make_interval(secs => %(age_s)s)
   AND NOT EXISTS (SELECT FROM task_node AS node
                    WHERE node.tenant_id = task.tenant_id AND node.task_id = task.task_id AND node.superseded_at IS NULL
                      AND node.status IN ('PENDING', 'QUEUED', 'PROCESSING'))
 LIMIT %(limit)s;

-- name: orphan_holds
-- Holds of tasks that have ended. The hold of a live task is never released here.
SELECT hold.tenant_id, hold.user_id, hold.hold_id
  FROM points_hold AS hold
  JOIN task ON task.tenant_id = hold.tenant_id AND task.hold_id = hold.hold_id
 WHERE hold.status = 'HELD' AND task.ended_at IS NOT NULL
 LIMIT %(limit)s;

-- name: lost_workers
DELETE FROM worker WHERE beat_at < clock_timestamp() - make_interval(secs => %(age_s)s);

-- name: expired_objects
SELECT 'artefact' AS kind, tenant_id, artefact_id AS item_id, key
  FROM artefact WHERE cleanup_status = 0 AND expires_at < statement_timestamp()
UNION ALL
SELECT 'upload', tenant_id, input_id, key
  FROM upload WHERE cleanup_status = 0 AND expires_at < statement_timestamp()
 LIMIT %(limit)s;

-- name: note_deleted_artefacts
UPDATE artefact SET cleanup_status = 1 WHERE artefact_id = ANY (%(item_ids)s::uuid[]) AND expires_at < clock_timestamp();

-- name: note_deleted_uploads
UPDATE upload SET cleanup_status = 1 WHERE input_id = ANY (%(item_ids)s::uuid[]) AND expires_at < clock_timestamp();

-- R-REC-6. Each invariant has two statements: the number of rows to check, and the rows that break it.
-- Null ids mean every row; otherwise an index finds the rows with these ids.

-- name: use_indexes
-- A check of some rows must not read a whole table, whatever the planner knows of the table.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true);

-- name: last_pass
SELECT clock_timestamp() AS now, pass.clean_at AS checked_until, pass.suspects,
       (SELECT position FROM sweep_position WHERE name = 'invariants:found') AS found
  FROM (SELECT) AS one LEFT JOIN invariant_pass AS pass ON true;

-- name: note_pass
INSERT INTO invariant_pass (clean_at, suspects) VALUES (%(until)s, %(suspects)s)
ON CONFLICT (is_only) DO UPDATE
   SET clean_at = greatest(invariant_pass.clean_at, excluded.clean_at), suspects = excluded.suspects;

-- name: keep_found
INSERT INTO sweep_position (name, position) VALUES ('invariants:found', %(found)s)
ON CONFLICT (name) DO UPDATE SET position = excluded.position;

-- name: forget_found
DELETE FROM sweep_position WHERE name = 'invariants:found' AND position = %(found)s::jsonb;

-- name: forget_mended
UPDATE sweep_position SET position = position - %(mended)s::text[]
 WHERE name = 'invariants:broken' AND position ?| %(mended)s::text[];

-- name: keep_broken
-- A time that is known already stays.
INSERT INTO sweep_position AS known (name, position)
SELECT 'invariants:broken', jsonb_object_agg(broken, clock_timestamp()) FROM unnest(%(broken)s::text[]) AS broken
ON CONFLICT (name) DO UPDATE SET position = excluded.position || known.position
RETURNING position;

-- name: changed_between
-- The dependents of a changed node are included, because their in-degrees count it. A task changes with its nodes, a hold and
-- an order with the ledger; an order that was paid and not credited is found by its payment.
WITH entries AS MATERIALIZED (
    SELECT tenant_id, user_id, version, hold_id, kind, reference
      FROM points_ledger
     WHERE created_at >= %(since)s AND created_at < %(until)s
), ranges AS MATERIALIZED (
    SELECT tenant_id, user_id, min(version) AS first, max(version) AS last FROM entries GROUP BY tenant_id, user_id
), moved AS MATERIALIZED (
    SELECT DISTINCT tenant_id, node_id FROM node_history WHERE changed_at >= %(since)s AND changed_at < %(until)s
), nodes AS MATERIALIZED (
    SELECT tenant_id, node_id FROM moved
     UNION
    SELECT edge.tenant_id, edge.node_id
      FROM moved
      JOIN node_dependency AS edge ON edge.tenant_id = moved.tenant_id AND edge.depends_on_id = moved.node_id
), orders AS MATERIALIZED (
    SELECT tenant_id, order_id FROM pay_order WHERE paid_at >= %(since)s AND paid_at < %(until)s
     UNION
    SELECT tenant_id, substr(reference, 5)::uuid FROM entries WHERE kind = 'RECHARGE' AND reference ~ '^ord_[0-9a-f]{32}$'
)
SELECT coalesce((SELECT array_agg(tenant_id) FROM (SELECT tenant_id FROM entries UNION SELECT tenant_id FROM nodes
                                                     UNION SELECT tenant_id FROM orders) AS seen), '{}') AS tenant_ids,
       coalesce((SELECT array_agg(user_id) FROM ranges), '{}') AS user_ids,
       coalesce((SELECT array_agg(DISTINCT hold_id) FROM entries WHERE hold_id IS NOT NULL), '{}') AS hold_ids,
       coalesce((SELECT array_agg(DISTINCT order_id) FROM orders), '{}') AS order_ids,
       coalesce((SELECT array_agg(node_id) FROM nodes), '{}') AS node_ids,
       coalesce((SELECT array_agg(DISTINCT node.task_id)
                   FROM moved JOIN task_node AS node ON node.node_id = moved.node_id), '{}') AS task_ids,
       coalesce((SELECT array_agg(tenant_id ORDER BY user_id) FROM ranges), '{}') AS ledger_tenant_ids,
       coalesce((SELECT array_agg(user_id ORDER BY user_id) FROM ranges), '{}') AS ledger_user_ids,
       coalesce((SELECT array_agg(first ORDER BY user_id) FROM ranges), '{}') AS ledger_first,
       coalesce((SELECT array_agg(last ORDER BY user_id) FROM ranges), '{}') AS ledger_last;

-- name: slice_position
SELECT position FROM sweep_position WHERE name = 'invariants';

-- name: keep_slice_position
INSERT INTO sweep_position (name, position) VALUES ('invariants', %(position)s)
ON CONFLICT (name) DO UPDATE SET position = excluded.position;

-- name: next_slice
-- The next rows of each table in the order of its key. `ends` is the last row of each; of a table that ends here it is null.
WITH tasks AS MATERIALIZED (
    SELECT tenant_id, task_id FROM task
     WHERE NOT %(no_task)s AND task_id > coalesce(%(task)s::jsonb ->> 0, %(zero)s)::uuid
     ORDER BY task_id LIMIT %(limit)s
), accounts AS MATERIALIZED (
    SELECT tenant_id, user_id FROM points_account
     WHERE NOT %(no_account)s
       AND (tenant_id, user_id) > (coalesce(%(account)s::jsonb ->> 0, %(zero)s)::uuid,
                                   coalesce(%(account)s::jsonb ->> 1, %(zero)s)::uuid)
     ORDER BY tenant_id, user_id LIMIT %(limit)s
), holds AS MATERIALIZED (
    SELECT tenant_id, hold_id FROM points_hold
     WHERE NOT %(no_hold)s
       AND (tenant_id, hold_id) > (coalesce(%(hold)s::jsonb ->> 0, %(zero)s)::uuid,
                                   coalesce(%(hold)s::jsonb ->> 1, %(zero)s)::uuid)
     ORDER BY tenant_id, hold_id LIMIT %(limit)s
), orders AS MATERIALIZED (
    SELECT tenant_id, order_id FROM pay_order
     WHERE NOT %(no_order)s
       AND (tenant_id, order_id) > (coalesce(%(order)s::jsonb ->> 0, %(zero)s)::uuid,
                                    coalesce(%(order)s::jsonb ->> 1, %(zero)s)::uuid)
     ORDER BY tenant_id, order_id LIMIT %(limit)s
), entries AS MATERIALIZED (
    SELECT tenant_id, user_id, version FROM points_ledger
     WHERE NOT %(no_entry)s
       AND (tenant_id, user_id, version) > (coalesce(%(entry)s::jsonb ->> 0, %(zero)s)::uuid,
                                            coalesce(%(entry)s::jsonb ->> 1, %(zero)s)::uuid,
                                            coalesce(%(entry)s::jsonb ->> 2, '0')::bigint)
     ORDER BY tenant_id, user_id, version LIMIT %(limit)s
), ranges AS MATERIALIZED (
    SELECT tenant_id, user_id, min(version) AS first, max(version) AS last FROM entries GROUP BY tenant_id, user_id
)
SELECT coalesce((SELECT array_agg(tenant_id)
                   FROM (SELECT tenant_id FROM tasks UNION SELECT tenant_id FROM accounts UNION SELECT tenant_id FROM holds
                          UNION SELECT tenant_id FROM orders UNION SELECT tenant_id FROM ranges) AS seen), '{}') AS tenant_ids,
       coalesce((SELECT array_agg(user_id) FROM accounts), '{}') AS user_ids,
       coalesce((SELECT array_agg(hold_id) FROM holds), '{}') AS hold_ids,
       coalesce((SELECT array_agg(order_id) FROM orders), '{}') AS order_ids,
       coalesce((SELECT array_agg(node.node_id) FROM tasks JOIN task_node AS node ON node.task_id = tasks.task_id), '{}') AS node_ids,
       coalesce((SELECT array_agg(task_id) FROM tasks), '{}') AS task_ids,
       coalesce((SELECT array_agg(tenant_id ORDER BY user_id) FROM ranges), '{}') AS ledger_tenant_ids,
       coalesce((SELECT array_agg(user_id ORDER BY user_id) FROM ranges), '{}') AS ledger_user_ids,
       coalesce((SELECT array_agg(first ORDER BY user_id) FROM ranges), '{}') AS ledger_first,
       coalesce((SELECT array_agg(last ORDER BY user_id) FROM ranges), '{}') AS ledger_last,
       jsonb_build_object(
           'task', (SELECT jsonb_build_array(task_id) FROM tasks ORDER BY task_id DESC LIMIT 1),
           'account', (SELECT jsonb_build_array(tenant_id, user_id) FROM accounts ORDER BY tenant_id DESC, user_id DESC LIMIT 1),
           'hold', (SELECT jsonb_build_array(tenant_id, hold_id) FROM holds ORDER BY tenant_id DESC, hold_id DESC LIMIT 1),
           'order', (SELECT jsonb_build_array(tenant_id, order_id) FROM orders ORDER BY tenant_id DESC, order_id DESC LIMIT 1),
           'entry', (SELECT jsonb_build_array(tenant_id, user_id, version) FROM entries
                      ORDER BY tenant_id DESC, user_id DESC, version DESC LIMIT 1)) AS ends,
       jsonb_build_object('task', (SELECT count(*) FROM tasks), 'account', (SELECT count(*) FROM accounts),
                          'hold', (SELECT count(*) FROM holds), 'order', (SELECT count(*) FROM orders),
                          'entry', (SELECT count(*) FROM entries)) AS counts;

-- name: count_balances
SELECT count(*) AS checked
  FROM points_account AS account
 WHERE %(tenant_ids)s::uuid[] IS NULL
    OR account.tenant_id = ANY (%(tenant_ids)s) AND account.user_id = ANY (%(user_ids)s);

-- name: broken_balances
SELECT account.tenant_id, account.user_id, account.balance, account.frozen, sums.balance AS ledger_balance,
       sums.frozen AS ledger_frozen
  FROM points_account AS account
  LEFT JOIN LATERAL (SELECT coalesce(sum(balance_delta), 0) AS balance, coalesce(sum(frozen_delta), 0) AS frozen
                       FROM points_ledger AS entry
                      WHERE entry.tenant_id = account.tenant_id AND entry.user_id = account.user_id) AS sums ON true
 WHERE (%(tenant_ids)s::uuid[] IS NULL
        OR account.tenant_id = ANY (%(tenant_ids)s) AND account.user_id = ANY (%(user_ids)s))
   AND (account.balance, account.frozen) IS DISTINCT FROM (sums.balance, sums.frozen)
 LIMIT %(limit)s;

-- name: broken_balances_in_scope
-- Each entry continues the one before it, and the account equals its newest entry: so the account equals the sum of all entries,
-- once every entry was checked. Reads the given entries only, however long the ledger is.
(SELECT account.tenant_id, account.user_id, account.version, account.balance, account.frozen, newest.balance AS ledger_balance,
        newest.frozen AS ledger_frozen
   FROM points_account AS account
   LEFT JOIN LATERAL (SELECT version, balance, frozen FROM points_ledger AS entry
                       WHERE entry.tenant_id = account.tenant_id AND entry.user_id = account.user_id
                       ORDER BY version DESC LIMIT 1) AS newest ON true
  WHERE account.tenant_id = ANY (%(tenant_ids)s) AND account.user_id = ANY (%(user_ids)s)
    AND (account.balance, account.frozen, account.version) IS DISTINCT FROM (newest.balance, newest.frozen, newest.version)
  LIMIT %(limit)s)
UNION ALL
(SELECT entry.tenant_id, entry.user_id, entry.version, entry.balance, entry.frozen, coalesce(before.balance, 0) + entry.balance_delta,
        coalesce(before.frozen, 0) + entry.frozen_delta
   FROM unnest(%(ledger_tenant_ids)s::uuid[], %(ledger_user_ids)s::uuid[], %(ledger_first)s::bigint[], %(ledger_last)s::bigint[])
        AS checked (tenant_id, user_id, first, last)
   JOIN points_ledger AS entry
     ON entry.tenant_id = checked.tenant_id AND entry.user_id = checked.user_id
    AND entry.version BETWEEN checked.first AND checked.last
   LEFT JOIN points_ledger AS before
     ON before.tenant_id = entry.tenant_id AND before.user_id = entry.user_id AND before.version = entry.version - 1
  WHERE (before.version IS NULL) <> (entry.version = 1)
     OR (entry.balance, entry.frozen)
        IS DISTINCT FROM (coalesce(before.balance, 0) + entry.balance_delta, coalesce(before.frozen, 0) + entry.frozen_delta)
  LIMIT %(limit)s);

-- name: count_holds
SELECT count(*) AS checked
  FROM points_hold AS hold
 WHERE %(tenant_ids)s::uuid[] IS NULL OR hold.tenant_id = ANY (%(tenant_ids)s) AND hold.hold_id = ANY (%(hold_ids)s);

-- name: broken_holds
-- An ended hold has one CONFIRM or CANCEL entry in the ledger, an open hold has none.
SELECT hold.tenant_id, hold.hold_id, hold.status, ends.count AS ends
  FROM points_hold AS hold
 CROSS JOIN LATERAL (SELECT count(*) FROM points_ledger AS entry
                      WHERE entry.tenant_id = hold.tenant_id AND entry.hold_id = hold.hold_id
                        AND entry.kind IN ('CONFIRM', 'CANCEL')) AS ends
 WHERE (%(tenant_ids)s::uuid[] IS NULL OR hold.tenant_id = ANY (%(tenant_ids)s) AND hold.hold_id = ANY (%(hold_ids)s))
   AND ends.count <> CASE WHEN hold.status = 'HELD' OR hold.amount = 0 THEN 0 ELSE 1 END
 LIMIT %(limit)s;

-- name: count_orders
SELECT count(*) AS checked
  FROM pay_order
 WHERE %(tenant_ids)s::uuid[] IS NULL
    OR pay_order.tenant_id = ANY (%(tenant_ids)s) AND pay_order.order_id = ANY (%(order_ids)s);

-- name: broken_credits
-- A paid order is credited once and in full; another order is not credited.
SELECT pay_order.tenant_id, pay_order.order_id, pay_order.status, pay_order.points, credits.count AS credits,
       credits.points AS credited_points
  FROM pay_order
 CROSS JOIN LATERAL (SELECT count(*), coalesce(sum(balance_delta), 0) AS points
                       FROM points_ledger AS entry
                      WHERE entry.tenant_id = pay_order.tenant_id AND entry.user_id = pay_order.user_id
                        AND entry.kind = 'RECHARGE'
                        AND entry.reference = 'ord_' || replace(pay_order.order_id::text, '-', '')) AS credits
 WHERE (%(tenant_ids)s::uuid[] IS NULL
        OR pay_order.tenant_id = ANY (%(tenant_ids)s) AND pay_order.order_id = ANY (%(order_ids)s))
   AND (credits.count, credits.points) IS DISTINCT FROM
       CASE WHEN pay_order.transaction_id IS NULL THEN (0::bigint, 0::numeric) ELSE (1::bigint, pay_order.points::numeric) END
 LIMIT %(limit)s;

-- name: broken_payments
-- A paid order has one credited transaction, its own, and the ledger entry of that transaction refers to the order.
SELECT pay_order.tenant_id, pay_order.order_id, pay_order.status, pay_order.transaction_id, credited.transaction_id AS credited_id,
       entry.reference AS credited_order
  FROM pay_order
  LEFT JOIN pay_transaction AS credited
    ON credited.tenant_id = pay_order.tenant_id AND credited.order_id = pay_order.order_id AND credited.outcome = 'CREDITED'
  LEFT JOIN points_ledger AS entry
    ON entry.tenant_id = pay_order.tenant_id
   AND entry.idempotency_key = 'wxpay:' || pay_order.mchid || ':' || pay_order.transaction_id
 WHERE (%(tenant_ids)s::uuid[] IS NULL
        OR pay_order.tenant_id = ANY (%(tenant_ids)s) AND pay_order.order_id = ANY (%(order_ids)s))
   AND (credited.transaction_id, credited.mchid, entry.reference) IS DISTINCT FROM
       (pay_order.transaction_id,
        CASE WHEN pay_order.transaction_id IS NOT NULL THEN pay_order.mchid END,
        CASE WHEN pay_order.transaction_id IS NOT NULL THEN 'ord_' || replace(pay_order.order_id::text, '-', '') END)
 LIMIT %(limit)s;

-- name: count_tasks
SELECT count(*) AS checked FROM task WHERE %(tenant_ids)s::uuid[] IS NULL OR task.task_id = ANY (%(task_ids)s);

-- name: broken_tasks
-- A live task has an open hold and open nodes; an ended task has neither.
SELECT task.tenant_id, task.task_id, task.status, hold.status AS hold, open.count AS open_nodes
  FROM task
  LEFT JOIN points_hold AS hold ON hold.tenant_id = task.tenant_id AND hold.hold_id = task.hold_id
 CROSS JOIN LATERAL (SELECT count(*) FROM task_node AS node
                      WHERE node.tenant_id = task.tenant_id AND node.task_id = task.task_id AND node.superseded_at IS NULL
                        AND node.status IN ('PENDING', 'QUEUED', 'PROCESSING')) AS open
 WHERE (%(tenant_ids)s::uuid[] IS NULL OR task.task_id = ANY (%(task_ids)s))
   AND ((task.ended_at IS NULL) IS DISTINCT FROM (hold.status = 'HELD')
        OR (task.ended_at IS NULL) <> (open.count > 0))
 LIMIT %(limit)s;

-- name: count_charges
SELECT count(*) AS checked
  FROM task
 WHERE ended_at IS NOT NULL AND (%(tenant_ids)s::uuid[] IS NULL OR task.task_id = ANY (%(task_ids)s));

-- name: broken_charges
-- The charge of a task equals its delivered nodes and the ledger entries.
SELECT task.tenant_id, task.task_id, task.charged_points, delivered.points AS delivered, taken.points AS taken
  FROM task
 CROSS JOIN LATERAL (SELECT coalesce(sum(price_points), 0) AS points FROM task_node AS node
                      WHERE node.tenant_id = task.tenant_id AND node.task_id = task.task_id AND node.status = 'COMPLETED') AS delivered
 CROSS JOIN LATERAL (SELECT coalesce(-sum(balance_delta + frozen_delta), 0) AS points FROM points_ledger AS entry
                      WHERE entry.tenant_id = task.tenant_id AND entry.user_id = task.user_id AND entry.kind = 'CONFIRM'
                        AND entry.reference = 'task:' || task.task_id) AS taken
 WHERE task.ended_at IS NOT NULL AND (%(tenant_ids)s::uuid[] IS NULL OR task.task_id = ANY (%(task_ids)s))
   AND (task.charged_points <> delivered.points OR task.charged_points <> taken.points)
 LIMIT %(limit)s;

-- name: count_nodes
SELECT count(*) AS checked FROM task_node AS node WHERE %(tenant_ids)s::uuid[] IS NULL OR node.node_id = ANY (%(node_ids)s);

-- name: broken_in_degrees
SELECT node.tenant_id, node.node_id, node.in_degree, open.count AS unfinished
  FROM task_node AS node
 CROSS JOIN LATERAL (SELECT count(*) FROM node_dependency AS edge
                       JOIN task_node AS before ON before.tenant_id = edge.tenant_id AND before.node_id = edge.depends_on_id
                      WHERE edge.tenant_id = node.tenant_id AND edge.node_id = node.node_id AND before.status <> 'COMPLETED') AS open
 WHERE (%(tenant_ids)s::uuid[] IS NULL OR node.node_id = ANY (%(node_ids)s))
   AND node.status NOT IN ('CANCELLED') AND node.in_degree <> open.count
 LIMIT %(limit)s;

-- name: broken_orphan_nodes
-- Nodes that wait or run although their task has ended.
SELECT node.tenant_id, node.node_id, node.task_id, node.status
  FROM task_node AS node
  JOIN task ON task.tenant_id = node.tenant_id AND task.task_id = node.task_id
 WHERE (%(tenant_ids)s::uuid[] IS NULL
        OR node.tenant_id = ANY (%(tenant_ids)s) AND node.task_id = ANY (%(task_ids)s))
   AND node.status IN ('PENDING', 'QUEUED', 'PROCESSING') AND task.ended_at IS NOT NULL
 LIMIT %(limit)s;

-- name: broken_dependents
-- A node that depends on a failed or cancelled node must be cancelled.
SELECT node.tenant_id, node.node_id, node.status, before.node_id AS depends_on, before.status AS depends_on_status
  FROM task_node AS node
  JOIN node_dependency AS edge ON edge.tenant_id = node.tenant_id AND edge.node_id = node.node_id
  JOIN task_node AS before ON before.tenant_id = edge.tenant_id AND before.node_id = edge.depends_on_id
 WHERE (%(tenant_ids)s::uuid[] IS NULL OR node.node_id = ANY (%(node_ids)s))
   AND before.status IN ('FAILED', 'TIMEOUT', 'CANCELLED') AND node.status <> 'CANCELLED'
 LIMIT %(limit)s;

-- name: broken_history
-- The newest history row of a node equals its present state.
SELECT node.tenant_id, node.node_id, node.status, node.version, last.to_status, last.version AS history_version
  FROM task_node AS node
  LEFT JOIN LATERAL (SELECT to_status, version FROM node_history AS history
                      WHERE history.tenant_id = node.tenant_id AND history.node_id = node.node_id
                      ORDER BY version DESC LIMIT 1) AS last ON true
 WHERE (%(tenant_ids)s::uuid[] IS NULL OR node.node_id = ANY (%(node_ids)s))
   AND (node.status, node.version) IS DISTINCT FROM (last.to_status, last.version)
 LIMIT %(limit)s;

-- name: count_tokens
SELECT count(*) AS checked FROM node_token;

-- name: broken_tokens
-- Step Functions waits for a node that has ended, and its token was not answered in time.
SELECT waiting.tenant_id, waiting.node_id, waiting.kind, node.status
  FROM node_token AS waiting
  JOIN task_node AS node ON node.tenant_id = waiting.tenant_id AND node.node_id = waiting.node_id
 WHERE waiting.issued_at < clock_timestamp() - make_interval(secs => %(grace_s)s)
   AND node.status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED')
   AND node.ended_at < clock_timestamp() - make_interval(secs => %(grace_s)s)
 LIMIT %(limit)s;

-- name: count_artefacts
SELECT count(*) AS checked
  FROM artefact
 WHERE %(tenant_ids)s::uuid[] IS NULL OR tenant_id = ANY (%(tenant_ids)s) AND task_id = ANY (%(task_ids)s);

-- name: broken_artefacts
-- Every artefact belongs to a completed node, and every completed node of a worker has an artefact.
SELECT artefact.tenant_id, artefact.node_id, artefact.task_id, artefact.key AS what
  FROM artefact
  JOIN task_node AS node ON node.tenant_id = artefact.tenant_id AND node.node_id = artefact.node_id
 WHERE (%(tenant_ids)s::uuid[] IS NULL
        OR artefact.tenant_id = ANY (%(tenant_ids)s) AND artefact.task_id = ANY (%(task_ids)s))
   AND node.status <> 'COMPLETED'
UNION ALL
SELECT node.tenant_id, node.node_id, node.task_id, 'no artefact'
  FROM task_node AS node
 WHERE (%(tenant_ids)s::uuid[] IS NULL OR node.node_id = ANY (%(node_ids)s))
   AND node.status = 'COMPLETED' AND node.pool <> 'http'
   AND NOT EXISTS (SELECT FROM artefact
                    WHERE artefact.tenant_id = node.tenant_id AND artefact.task_id = node.task_id
                      AND artefact.node_id = node.node_id)
 LIMIT %(limit)s;

-- name: count_slots
SELECT count(*) AS checked FROM slot_in_use;

-- name: broken_slots
-- A slot belongs to an attempt that was dispatched and has not ended.
SELECT node.tenant_id, node.node_id, node.status, node.attempt
  FROM task_node AS node
 WHERE node.status = 'PROCESSING' AND (node.dispatched_at IS NULL OR node.attempt = 0)
UNION ALL
SELECT node.tenant_id, node.node_id, node.status, node.attempt
  FROM task_node AS node
 WHERE node.status = 'PENDING' AND node.dispatched_at IS NOT NULL AND node.in_degree = 0
 LIMIT %(limit)s;

-- name: slots_of_pool
-- The slots that Redis must have too.
SELECT node_id FROM slot_in_use WHERE pool = %(pool)s;

-- name: missing_slots
SELECT node.tenant_id, node.node_id, node.status, 'not in Redis' AS what
  FROM task_node AS node
 WHERE node.node_id = ANY (%(node_ids)s::uuid[]) AND node.status IN ('QUEUED', 'PROCESSING')
   AND node.dispatched_at < clock_timestamp() - make_interval(secs => %(grace_s)s)
 LIMIT %(limit)s;

-- name: surplus_slots
-- A node that waits in the fair queue may have been popped a moment ago; its lease in Redis expires if it was not dispatched.
SELECT node.tenant_id, coalesce(node.node_id, mirrored.node_id) AS node_id, node.status, 'not in PostgreSQL' AS what
  FROM unnest(%(node_ids)s::uuid[]) AS mirrored (node_id)
  LEFT JOIN task_node AS node ON node.node_id = mirrored.node_id
 WHERE node.node_id IS NULL
    OR node.status <> 'QUEUED' AND coalesce(node.ended_at, node.not_before) < clock_timestamp() - make_interval(secs => %(grace_s)s)
 LIMIT %(limit)s;

-- name: count_overdue
-- One partial index each.
SELECT (SELECT count(*) FROM task_node WHERE status = 'PENDING')
       + (SELECT count(*) FROM task_node WHERE status = 'QUEUED' AND dispatched_at IS NULL)
       + (SELECT count(*) FROM task_node WHERE status = 'QUEUED' AND dispatched_at IS NOT NULL)
       + (SELECT count(*) FROM task_node WHERE status = 'PROCESSING') AS checked;

-- name: broken_overdue
-- A row that has waited longer than several sweeps shows that the sweeps do not run.
(SELECT tenant_id, node_id, status, lease_until, hinted_at, not_before
   FROM task_node
  WHERE status = 'PROCESSING' AND lease_until < clock_timestamp() - make_interval(secs => %(grace_s)s)
  LIMIT %(limit)s)
UNION ALL
(SELECT tenant_id, node_id, status, lease_until, hinted_at, not_before
   FROM task_node
  WHERE status = 'QUEUED' AND dispatched_at IS NOT NULL AND hinted_at < clock_timestamp() - make_interval(secs => %(grace_s)s)
  LIMIT %(limit)s)
UNION ALL
(SELECT tenant_id, node_id, status, lease_until, hinted_at, not_before
   FROM task_node
  WHERE status = 'PENDING' AND in_degree = 0 AND not_before < clock_timestamp() - make_interval(secs => %(grace_s)s)
  LIMIT %(limit)s)
 LIMIT %(limit)s;

-- name: count_runs
SELECT count(*) AS checked FROM job_run WHERE scheduled_at >= clock_timestamp() - interval '1 day';

-- name: broken_single_runs
-- A job has one run for a time, and a run has one id.
(SELECT tenant_id, job_id, NULL::uuid AS run_id, scheduled_at, count(*) AS runs
   FROM job_run
  WHERE scheduled_at >= clock_timestamp() - interval '1 day'
  GROUP BY tenant_id, job_id, scheduled_at HAVING count(*) > 1
  LIMIT %(limit)s)
UNION ALL
(SELECT NULL, NULL, run_id, min(scheduled_at), count(*)
   FROM job_run
  WHERE scheduled_at >= clock_timestamp() - interval '1 day'
  GROUP BY run_id HAVING count(*) > 1
  LIMIT %(limit)s)
 LIMIT %(limit)s;

-- name: broken_single_runs_in_scope
-- Runs that are active, or were in the last minutes: an index of each.
SELECT tenant_id, job_id, run_id, scheduled_at
  FROM (SELECT tenant_id, job_id, run_id, scheduled_at, count(*) OVER (PARTITION BY tenant_id, job_id, scheduled_at) AS of_time,
               count(*) OVER (PARTITION BY run_id) AS of_id
          FROM (SELECT tenant_id, job_id, run_id, scheduled_at FROM job_run WHERE state IN ('RUNNING', 'RETRYING')
                 UNION ALL
                SELECT tenant_id, job_id, run_id, scheduled_at FROM job_run
                 WHERE ended_at > clock_timestamp() - interval '3 minutes') AS recent) AS counted
 WHERE of_time > 1 OR of_id > 1
 LIMIT %(limit)s;

-- name: broken_orphan_runs
SELECT tenant_id, job_id, run_id, scheduled_at
  FROM job_run AS run
 WHERE scheduled_at >= clock_timestamp() - interval '1 day'
   AND NOT EXISTS (SELECT FROM job WHERE job.tenant_id = run.tenant_id AND job.job_id = run.job_id)
 LIMIT %(limit)s;

-- name: broken_orphan_runs_in_scope
SELECT tenant_id, job_id, run_id, scheduled_at
  FROM (SELECT tenant_id, job_id, run_id, scheduled_at FROM job_run WHERE state IN ('RUNNING', 'RETRYING')
         UNION ALL
        SELECT tenant_id, job_id, run_id, scheduled_at FROM job_run WHERE is_deferred
         UNION ALL
        SELECT tenant_id, job_id, run_id, scheduled_at FROM job_run WHERE ended_at > clock_timestamp() - interval '3 minutes') AS run
 WHERE NOT EXISTS (SELECT FROM job WHERE job.tenant_id = run.tenant_id AND job.job_id = run.job_id)
 LIMIT %(limit)s;

-- name: count_running
SELECT count(*) AS checked FROM job_run WHERE state = 'RUNNING';

-- name: broken_leases
-- A running run has a lease. A lease that ended long ago, or a result that is not written back, shows that the sweeps do not run.
(SELECT tenant_id, run_id, attempt, lease_until
   FROM job_run
  WHERE state = 'RUNNING'
    AND (lease_until IS NULL OR lease_until < clock_timestamp() - make_interval(secs => %(grace_s)s))
  LIMIT %(limit)s)
UNION ALL
(SELECT run.tenant_id, run.run_id, run.attempt, run.lease_until
   FROM job_run AS run JOIN run_result AS result
        ON result.run_id = run.run_id AND result.generation = run.generation AND result.attempt = run.attempt
  WHERE run.state = 'RUNNING' AND result.at < clock_timestamp() - make_interval(secs => %(grace_s)s)
    AND result.at >= run.started_at - interval '1 hour'
  LIMIT %(limit)s)
UNION ALL
(SELECT tenant_id, run_id, attempt, lease_until
   FROM job_run WHERE is_deferred AND state NOT IN ('PENDING', 'RETRYING')
  LIMIT %(limit)s)
 LIMIT %(limit)s;

-- name: broken_run_counters
-- The counters change in the transactions that move the runs, so that one statement sees both agree.
SELECT tenant_id, lane, is_call, sum(running) AS running, sum(deferred) AS deferred, sum(blocked) AS blocked
  FROM (SELECT tenant_id, lane, task_type = 'HTTP' AS is_call, 1 AS running, 0 AS deferred, 0 AS blocked
          FROM job_run WHERE state = 'RUNNING'
         UNION ALL
        SELECT tenant_id, lane, task_type = 'HTTP', 0, (defer_reason NOT IN ('overlap', 'job_concurrency'))::integer,
               (defer_reason IN ('overlap', 'job_concurrency'))::integer
          FROM job_run WHERE is_deferred
         UNION ALL
        SELECT tenant_id, lane, is_call, -running, -deferred, -blocked FROM job_load) AS counted
 GROUP BY tenant_id, lane, is_call
HAVING sum(running) <> 0 OR sum(deferred) <> 0 OR sum(blocked) <> 0
 LIMIT %(limit)s;

-- name: count_texts
SELECT (SELECT count(*) FROM generation WHERE status IN ('QUEUED', 'RUNNING'))
       + (SELECT count(*) FROM generation WHERE ended_at > statement_timestamp() - interval '1 hour') AS checked;

-- name: broken_texts
-- A live text has an open hold. The hold of an ended one has ended with the charge that the text shows.
SELECT text.tenant_id, text.generation_id, text.status, text.charged_points, hold.status AS hold, hold.charged
  FROM generation AS text
  LEFT JOIN points_hold AS hold ON hold.tenant_id = text.tenant_id AND hold.hold_id = text.hold_id
 WHERE NOT text.is_free AND (text.ended_at IS NULL OR text.ended_at > statement_timestamp() - interval '1 hour')
   AND ((text.ended_at IS NULL) IS DISTINCT FROM (hold.status = 'HELD')
        OR text.ended_at IS NOT NULL AND hold.charged <> text.charged_points)
 LIMIT %(limit)s;

-- name: count_running_texts
SELECT count(*) AS checked FROM generation WHERE status = 'RUNNING';

-- name: broken_leases_of_texts
-- A lease that ended several sweeps ago shows that the sweeps do not run.
SELECT tenant_id, generation_id, attempt, lease_until
  FROM generation
 WHERE status = 'RUNNING' AND lease_until < clock_timestamp() - make_interval(secs => %(grace_s)s)
 LIMIT %(limit)s;
