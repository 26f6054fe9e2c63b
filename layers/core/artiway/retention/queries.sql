-- Each purge takes the oldest rows from an index, at most one batch, and returns how many it read from its first table and how
-- many left all tables. Rows that another transaction has locked are left to the next pass. statement_timestamp() is constant
-- during a statement, so that the index can use it.

-- name: use_indexes
-- Until the next ANALYZE the planner may prefer to read a whole table.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true);

-- name: try_lock
SELECT pg_try_advisory_xact_lock(9, hashtext(%(name)s)) AS is_mine;

-- name: position
SELECT position FROM sweep_position WHERE name = %(name)s;

-- name: keep_position
INSERT INTO sweep_position (name, position) VALUES (%(name)s, %(position)s)
ON CONFLICT (name) DO UPDATE SET position = excluded.position;

-- name: task_events
-- The last event stays: a client that reads the events of an old task gets the end.
WITH ended AS MATERIALIZED (
    SELECT tenant_id, task_id, event_sequence
      FROM task
     WHERE purge_stage = 0 AND ended_at < statement_timestamp() - %(age)s
     ORDER BY ended_at, task_id
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM task_event AS event
     USING ended
     WHERE event.tenant_id = ended.tenant_id AND event.task_id = ended.task_id AND event.sequence < ended.event_sequence
    RETURNING 1
), noted AS (
    UPDATE task SET purge_stage = 1 FROM ended WHERE task.tenant_id = ended.tenant_id AND task.task_id = ended.task_id
)
SELECT (SELECT count(*) FROM ended) AS examined, (SELECT count(*) FROM gone) AS deleted;

-- name: node_history
-- The last row stays as long as the node: the invariants compare them.
WITH ended AS MATERIALIZED (
    SELECT tenant_id, task_id
      FROM task
     WHERE purge_stage = 1 AND ended_at < statement_timestamp() - %(age)s
     ORDER BY ended_at, task_id
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
), node AS MATERIALIZED (
    SELECT node.tenant_id, node.node_id, node.version
      FROM ended JOIN task_node AS node ON node.task_id = ended.task_id
), gone AS (
    DELETE FROM node_history AS history
     USING node
     WHERE history.tenant_id = node.tenant_id AND history.node_id = node.node_id AND history.version < node.version
    RETURNING 1
), noted AS (
    UPDATE task SET purge_stage = 2 FROM ended WHERE task.tenant_id = ended.tenant_id AND task.task_id = ended.task_id
)
SELECT (SELECT count(*) FROM ended) AS examined, (SELECT count(*) FROM gone) AS deleted;

-- name: tasks
-- A task leaves with all its rows. It stays while a picture of it is stored, its hold is open, a webhook is not delivered,
-- an execution waits for one of its nodes, or a node has not ended.
WITH ended AS MATERIALIZED (
    SELECT tenant_id, task_id, hold_id, ended_at
      FROM task
     WHERE purge_stage = 2 AND ended_at < statement_timestamp() - %(age)s
       AND (ended_at, task_id) > (%(at)s::timestamptz, %(id)s::uuid)
     ORDER BY ended_at, task_id
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
), leaving AS MATERIALIZED (
    SELECT ended.tenant_id, ended.task_id
      FROM ended
     WHERE NOT EXISTS (SELECT FROM points_hold AS hold
                        WHERE hold.tenant_id = ended.tenant_id AND hold.hold_id = ended.hold_id AND hold.status = 'HELD')
       AND NOT EXISTS (SELECT FROM artefact
                        WHERE artefact.tenant_id = ended.tenant_id AND artefact.task_id = ended.task_id
                          AND artefact.cleanup_status = 0)
       AND NOT EXISTS (SELECT FROM webhook_delivery AS delivery
                        WHERE delivery.tenant_id = ended.tenant_id AND delivery.task_id = ended.task_id
                          AND delivery.status = 'PENDING')
       AND NOT EXISTS (SELECT FROM task_node AS node
                        WHERE node.task_id = ended.task_id
                          AND (node.ended_at IS NULL
                               OR EXISTS (SELECT FROM node_token AS waiting
                                           WHERE waiting.node_id = node.node_id AND waiting.answered_at IS NULL)))
), node AS MATERIALIZED (
    SELECT node.tenant_id, node.node_id
      FROM leaving JOIN task_node AS node ON node.task_id = leaving.task_id
), tokens AS (
    DELETE FROM node_token AS token USING node
     WHERE token.node_id = node.node_id
    RETURNING 1
), artefacts AS (
    DELETE FROM artefact USING leaving
     WHERE artefact.tenant_id = leaving.tenant_id AND artefact.task_id = leaving.task_id
    RETURNING 1
), edges AS (
    DELETE FROM node_dependency AS edge USING node
     WHERE edge.tenant_id = node.tenant_id AND edge.node_id = node.node_id
    RETURNING 1
), history AS (
    DELETE FROM node_history AS history USING node
     WHERE history.tenant_id = node.tenant_id AND history.node_id = node.node_id
    RETURNING 1
), nodes AS (
    DELETE FROM task_node USING node
     WHERE task_node.tenant_id = node.tenant_id AND task_node.node_id = node.node_id
    RETURNING 1
), events AS (
    DELETE FROM task_event AS event USING leaving
     WHERE event.tenant_id = leaving.tenant_id AND event.task_id = leaving.task_id
    RETURNING 1
), gone AS (
    DELETE FROM task USING leaving
     WHERE task.tenant_id = leaving.tenant_id AND task.task_id = leaving.task_id
    RETURNING 1
)
SELECT (SELECT count(*) FROM ended) AS examined,
       (SELECT count(*) FROM gone) + (SELECT count(*) FROM nodes) + (SELECT count(*) FROM events)
       + (SELECT count(*) FROM history) + (SELECT count(*) FROM edges) + (SELECT count(*) FROM artefacts)
       + (SELECT count(*) FROM tokens) AS deleted,
       (SELECT jsonb_build_object('at', ended_at, 'id', task_id) FROM ended ORDER BY ended_at DESC, task_id DESC LIMIT 1) AS position;

-- name: node_tokens
-- A release before kept answered tokens.
WITH gone AS (
    DELETE FROM node_token
     WHERE (tenant_id, token_id) IN (SELECT tenant_id, token_id
                                       FROM node_token
                                      WHERE answered_at < statement_timestamp() - %(age)s
                                      ORDER BY answered_at, token_id
                                      LIMIT %(limit)s
                                        FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: webhook_deliveries
-- next_try_at of a delivery that has ended is the time of its last attempt.
WITH gone AS (
    DELETE FROM webhook_delivery
     WHERE (tenant_id, delivery_id) IN (SELECT tenant_id, delivery_id
                                          FROM webhook_delivery
                                         WHERE status <> 'PENDING' AND next_try_at < statement_timestamp() - %(age)s
                                         ORDER BY next_try_at, delivery_id
                                         LIMIT %(limit)s
                                           FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: webhooks
WITH deleted AS MATERIALIZED (
    SELECT tenant_id, webhook_id, deleted_at
      FROM webhook
     WHERE deleted_at < statement_timestamp() - %(age)s AND (deleted_at, webhook_id) > (%(at)s::timestamptz, %(id)s::uuid)
     ORDER BY deleted_at, webhook_id
     LIMIT %(limit)s
), gone AS (
    DELETE FROM webhook
     USING deleted
     WHERE webhook.tenant_id = deleted.tenant_id AND webhook.webhook_id = deleted.webhook_id
       AND NOT EXISTS (SELECT FROM webhook_delivery AS delivery
                        WHERE delivery.tenant_id = deleted.tenant_id AND delivery.webhook_id = deleted.webhook_id)
    RETURNING 1
)
SELECT (SELECT count(*) FROM deleted) AS examined, (SELECT count(*) FROM gone) AS deleted,
       (SELECT jsonb_build_object('at', deleted_at, 'id', webhook_id) FROM deleted
         ORDER BY deleted_at DESC, webhook_id DESC LIMIT 1) AS position;

-- name: payment_alerts
WITH gone AS (
    DELETE FROM pay_alert
     WHERE alert_key IN (SELECT alert_key
                           FROM pay_alert
                          WHERE sent_at < statement_timestamp() - %(age)s
                          ORDER BY sent_at
                          LIMIT %(limit)s
                            FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: uploads
-- Only rows whose picture S3 has deleted.
WITH gone AS (
    DELETE FROM upload
     WHERE (tenant_id, input_id) IN (SELECT tenant_id, input_id
                                       FROM upload
                                      WHERE cleanup_status = 1 AND expires_at < statement_timestamp() - %(age)s
                                      ORDER BY expires_at, input_id
                                      LIMIT %(limit)s
                                        FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: expired_sessions
-- Refresh tokens are deleted with their session.
WITH gone AS (
    DELETE FROM session
     WHERE (tenant_id, session_id) IN (SELECT tenant_id, session_id
                                         FROM session
                                        WHERE expires_at < statement_timestamp() - %(age)s
                                        ORDER BY expires_at
                                        LIMIT %(limit)s
                                          FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: revoked_sessions
WITH gone AS (
    DELETE FROM session
     WHERE (tenant_id, session_id) IN (SELECT tenant_id, session_id
                                         FROM session
                                        WHERE revoked_at < statement_timestamp() - %(age)s
                                        ORDER BY revoked_at
                                        LIMIT %(limit)s
                                          FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: login_failures
WITH gone AS (
    DELETE FROM login_failure
     WHERE subject IN (SELECT subject
                         FROM login_failure
                        WHERE last_at < statement_timestamp() - %(age)s
                        ORDER BY last_at
                        LIMIT %(limit)s
                          FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: logins
WITH gone AS (
    DELETE FROM login_event
     WHERE (tenant_id, login_id) IN (SELECT tenant_id, login_id
                                       FROM login_event
                                      WHERE logged_at < statement_timestamp() - %(age)s
                                      ORDER BY logged_at
                                      LIMIT %(limit)s)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: password_resets
WITH gone AS (
    DELETE FROM password_reset
     WHERE reset_id IN (SELECT reset_id
                          FROM password_reset
                         WHERE expires_at < statement_timestamp() - %(age)s
                         ORDER BY expires_at
                         LIMIT %(limit)s)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: invitations
WITH gone AS (
    DELETE FROM invitation
     WHERE (tenant_id, invitation_id) IN (SELECT tenant_id, invitation_id
                                            FROM invitation
                                           WHERE expires_at < statement_timestamp() - %(age)s
                                           ORDER BY expires_at
                                           LIMIT %(limit)s)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: idempotency_keys
WITH gone AS (
    DELETE FROM idempotency_key
     WHERE (tenant_id, idempotency_key) IN (SELECT tenant_id, idempotency_key
                                              FROM idempotency_key
                                             WHERE created_at < statement_timestamp() - %(age)s
                                             ORDER BY created_at
                                             LIMIT %(limit)s)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: outbox_events
-- Numbers rise with time, so the old rows are the lowest; an index by time would cost each event a write. A batch that reaches
-- young rows is the last one.
WITH lowest AS MATERIALIZED (
    SELECT outbox_id, created_at FROM outbox WHERE outbox_id > %(number)s ORDER BY outbox_id LIMIT %(limit)s
), gone AS (
    DELETE FROM outbox
     USING lowest
     WHERE outbox.outbox_id = lowest.outbox_id AND outbox.sent_at < statement_timestamp() - %(age)s
    RETURNING 1
)
SELECT (SELECT count(*) FROM lowest WHERE created_at < statement_timestamp() - %(age)s) AS examined,
       (SELECT count(*) FROM gone) AS deleted,
       (SELECT jsonb_build_object('number', max(outbox_id)) FROM lowest) AS position;

-- name: audit_entries
-- The row policy old_rows checks the age again: no younger row can be deleted.
WITH gone AS (
    DELETE FROM audit_log
     WHERE audit_id IN (SELECT audit_id
                          FROM audit_log
                         WHERE at < statement_timestamp() - %(age)s
                         ORDER BY at
                         LIMIT %(limit)s)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: holds
-- The ledger keeps the hold's id and amounts. A hold stays as long as the task that names it.
WITH ended AS MATERIALIZED (
    SELECT tenant_id, hold_id, ended_at
      FROM points_hold
     WHERE ended_at < statement_timestamp() - %(age)s AND (ended_at, hold_id) > (%(at)s::timestamptz, %(id)s::uuid)
     ORDER BY ended_at, hold_id
     LIMIT %(limit)s
), leaving AS MATERIALIZED (
    SELECT tenant_id, hold_id FROM ended WHERE NOT EXISTS (SELECT FROM task WHERE task.hold_id = ended.hold_id)
), parts AS (
    DELETE FROM points_hold_lot AS part USING leaving
     WHERE part.tenant_id = leaving.tenant_id AND part.hold_id = leaving.hold_id
    RETURNING 1
), gone AS (
    DELETE FROM points_hold AS hold USING leaving
     WHERE hold.tenant_id = leaving.tenant_id AND hold.hold_id = leaving.hold_id
    RETURNING 1
)
SELECT (SELECT count(*) FROM ended) AS examined, (SELECT count(*) FROM gone) + (SELECT count(*) FROM parts) AS deleted,
       (SELECT jsonb_build_object('at', ended_at, 'id', hold_id) FROM ended ORDER BY ended_at DESC, hold_id DESC LIMIT 1) AS position;

-- name: lots
-- A hold that still exists may return points to the lot.
WITH spent AS MATERIALIZED (
    SELECT tenant_id, lot_id, expires_at
      FROM points_lot
     WHERE remaining = 0 AND expires_at < statement_timestamp() - %(age)s
       AND (expires_at, lot_id) > (%(at)s::timestamptz, %(id)s::uuid)
     ORDER BY expires_at, lot_id
     LIMIT %(limit)s
), gone AS (
    DELETE FROM points_lot AS lot
     USING spent
     WHERE lot.tenant_id = spent.tenant_id AND lot.lot_id = spent.lot_id
       AND NOT EXISTS (SELECT FROM points_hold_lot AS part
                        WHERE part.tenant_id = spent.tenant_id AND part.lot_id = spent.lot_id)
    RETURNING 1
)
SELECT (SELECT count(*) FROM spent) AS examined, (SELECT count(*) FROM gone) AS deleted,
       (SELECT jsonb_build_object('at', expires_at, 'id', lot_id) FROM spent ORDER BY expires_at DESC, lot_id DESC LIMIT 1) AS position;

-- name: unpaid_orders
-- An order with a payment, even one that was not credited, is no unpaid order.
WITH ended AS MATERIALIZED (
    SELECT tenant_id, order_id, created_at, status, flag
      FROM pay_order
     WHERE status IN ('COMPLETED', 'REFUNDED', 'CLOSED') AND created_at < statement_timestamp() - %(age)s
       AND (created_at, order_id) > (%(at)s::timestamptz, %(id)s::uuid)
     ORDER BY created_at, order_id
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM pay_order
     USING ended
     WHERE pay_order.tenant_id = ended.tenant_id AND pay_order.order_id = ended.order_id
       AND ended.status = 'CLOSED' AND ended.flag IS NULL
       AND NOT EXISTS (SELECT FROM pay_transaction AS payment
                        WHERE payment.tenant_id = ended.tenant_id AND payment.order_id = ended.order_id)
       AND NOT EXISTS (SELECT FROM bill_difference AS open
                        WHERE open.tenant_id = ended.tenant_id AND open.order_id = ended.order_id AND open.resolution = 'OPEN')
    RETURNING 1
)
SELECT (SELECT count(*) FROM ended) AS examined, (SELECT count(*) FROM gone) AS deleted,
       (SELECT jsonb_build_object('at', created_at, 'id', order_id) FROM ended
         ORDER BY created_at DESC, order_id DESC LIMIT 1) AS position;

-- name: paid_orders
-- An order leaves with its payments and refunds. It stays while an operator has to decide about a payment, a refund is open, or
-- the bill shows a difference. Payments that were never credited stay.
WITH ended AS MATERIALIZED (
    SELECT tenant_id, order_id, created_at, status, flag
      FROM pay_order
     WHERE status IN ('COMPLETED', 'REFUNDED', 'CLOSED') AND created_at < statement_timestamp() - %(age)s
       AND (created_at, order_id) > (%(at)s::timestamptz, %(id)s::uuid)
     ORDER BY created_at, order_id
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
), leaving AS MATERIALIZED (
    SELECT tenant_id, order_id
      FROM ended
     WHERE status IN ('COMPLETED', 'REFUNDED') AND (flag IS NULL OR flag = 'PAID_LATE')
       AND NOT EXISTS (SELECT FROM pay_refund AS refund
                        WHERE refund.tenant_id = ended.tenant_id AND refund.order_id = ended.order_id
                          AND (refund.ended_at IS NULL OR refund.ended_at >= statement_timestamp() - %(age)s))
       AND NOT EXISTS (SELECT FROM pay_transaction AS payment
                        WHERE payment.tenant_id = ended.tenant_id AND payment.order_id = ended.order_id
                          AND (payment.outcome <> 'CREDITED' OR payment.seen_at >= statement_timestamp() - %(age)s))
       AND NOT EXISTS (SELECT FROM bill_difference AS open
                        WHERE open.tenant_id = ended.tenant_id AND open.order_id = ended.order_id AND open.resolution = 'OPEN')
), refunds AS (
    DELETE FROM pay_refund AS refund USING leaving
     WHERE refund.tenant_id = leaving.tenant_id AND refund.order_id = leaving.order_id
    RETURNING 1
), payments AS (
    DELETE FROM pay_transaction AS payment USING leaving
     WHERE payment.tenant_id = leaving.tenant_id AND payment.order_id = leaving.order_id
    RETURNING 1
), gone AS (
    DELETE FROM pay_order USING leaving
     WHERE pay_order.tenant_id = leaving.tenant_id AND pay_order.order_id = leaving.order_id
    RETURNING 1
)
SELECT (SELECT count(*) FROM ended) AS examined,
       (SELECT count(*) FROM gone) + (SELECT count(*) FROM refunds) + (SELECT count(*) FROM payments) AS deleted,
       (SELECT jsonb_build_object('at', created_at, 'id', order_id) FROM ended
         ORDER BY created_at DESC, order_id DESC LIMIT 1) AS position;

-- name: generations
-- Only texts whose hold has ended.
WITH gone AS (
    DELETE FROM generation
     WHERE (tenant_id, generation_id) IN (SELECT text.tenant_id, text.generation_id
                                            FROM generation AS text
                                           WHERE text.ended_at < statement_timestamp() - %(age)s
                                             AND NOT EXISTS (SELECT FROM points_hold AS hold
                                                              WHERE hold.tenant_id = text.tenant_id AND hold.hold_id = text.hold_id
                                                                AND hold.status = 'HELD')
                                           ORDER BY text.ended_at, text.generation_id
                                           LIMIT %(limit)s
                                             FOR UPDATE OF text SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: allowances
WITH gone AS (
    DELETE FROM generation_allowance
     WHERE (tenant_id, user_id, day) IN (SELECT tenant_id, user_id, day
                                           FROM generation_allowance
                                          WHERE day < (statement_timestamp() - %(age)s)::date
                                          ORDER BY day
                                          LIMIT %(limit)s)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: text_usage
WITH gone AS (
    DELETE FROM text_usage
     WHERE (day, tenant_id, user_id, service, provider, model_id) IN (SELECT day, tenant_id, user_id, service, provider, model_id
                                                                        FROM text_usage
                                                                       WHERE day < (statement_timestamp() - %(age)s)::date
                                                                       ORDER BY day
                                                                       LIMIT %(limit)s)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: job_changes
-- The version in force has no time, so it stays, with the note of a pause.
WITH gone AS (
    DELETE FROM job_change
     WHERE (tenant_id, job_id, version) IN (SELECT tenant_id, job_id, version
                                              FROM job_change
                                             WHERE superseded_at < statement_timestamp() - %(age)s
                                             ORDER BY superseded_at
                                             LIMIT %(limit)s
                                               FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: job_notes
WITH gone AS (
    DELETE FROM job_fire_note
     WHERE (tenant_id, job_id, first_at, outcome) IN (SELECT tenant_id, job_id, first_at, outcome
                                                        FROM job_fire_note
                                                       WHERE at < statement_timestamp() - %(age)s
                                                       ORDER BY at
                                                       LIMIT %(limit)s
                                                         FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) AS examined, count(*) AS deleted FROM gone;

-- name: oldest_s
-- The first entry of each index. A task counts from its end, so a task that has not ended counts nowhere.
SELECT name, extract(epoch FROM statement_timestamp() - oldest)::float8 AS age_s
  FROM (VALUES
        ('task_events', (SELECT min(ended_at) FROM task WHERE purge_stage = 0 AND ended_at IS NOT NULL)),
        ('node_history', (SELECT min(ended_at) FROM task WHERE purge_stage = 1 AND ended_at IS NOT NULL)),
        ('tasks', (SELECT min(ended_at) FROM task WHERE purge_stage = 2 AND ended_at IS NOT NULL)),
        ('webhook_deliveries', (SELECT min(next_try_at) FROM webhook_delivery WHERE status <> 'PENDING')),
        ('payment_alerts', (SELECT min(sent_at) FROM pay_alert WHERE sent_at IS NOT NULL)),
        ('uploads', (SELECT min(expires_at) FROM upload WHERE cleanup_status = 1)),
        ('idempotency_keys', (SELECT min(created_at) FROM idempotency_key)),
        ('outbox_events', (SELECT sent_at FROM outbox WHERE sent_at IS NOT NULL ORDER BY outbox_id LIMIT 1)),
        ('audit_entries', (SELECT min(at) FROM audit_log)),
        ('job_changes', (SELECT min(superseded_at) FROM job_change WHERE superseded_at IS NOT NULL)),
        ('job_notes', (SELECT min(at) FROM job_fire_note)),
        ('holds', (SELECT min(ended_at) FROM points_hold WHERE ended_at IS NOT NULL)),
        ('paid_orders', (SELECT min(created_at) FROM pay_order WHERE status IN ('COMPLETED', 'REFUNDED', 'CLOSED')))
       ) AS known (name, oldest);
