-- name: add_order
INSERT INTO pay_order (tenant_id, order_id, user_id, out_trade_no, mchid, appid, package_id, amount_fen, points, channel, openid,
                       status, prepay_body, created_at, expires_at, idempotency_key, request_hash, next_query_at)
VALUES (current_tenant(), %(order_id)s, %(user_id)s, %(out_trade_no)s, %(mchid)s, %(appid)s, %(package_id)s, %(amount_fen)s,
        %(points)s, %(channel)s, %(openid)s, 'CREATED', %(prepay_body)s, %(created_at)s, %(expires_at)s, %(idempotency_key)s,
        %(request_hash)s, %(next_query_at)s)
ON CONFLICT (tenant_id, idempotency_key) DO NOTHING;

-- name: lock_open_orders
-- Held until the transaction ends: of two concurrent orders of a tenant the second counts the first.
SELECT pg_advisory_xact_lock(hashtextextended('open orders:' || current_tenant(), 0));

-- name: count_open_orders
SELECT count(*) AS of_tenant, count(*) FILTER (WHERE user_id = %(user_id)s) AS of_user
  FROM pay_order
 WHERE status IN ('CREATED', 'PAYING');

-- name: forget_order_key
-- A key is valid for a day. Afterwards a new order may use it.
UPDATE pay_order SET idempotency_key = NULL WHERE idempotency_key = %(idempotency_key)s AND created_at < %(kept_since)s;

-- name: order_of_key
SELECT tenant_id, order_id, user_id, out_trade_no, mchid, appid, package_id, amount_fen, points, channel, openid, status,
       close_reason, flag, prepay_body, prepay_code, prepay_until, created_at, expires_at, transaction_id, paid_at,
       refunded_fen, refunded_points, request_hash, query_tries
  FROM pay_order
 WHERE idempotency_key = %(idempotency_key)s;

-- name: order
SELECT tenant_id, order_id, user_id, out_trade_no, mchid, appid, package_id, amount_fen, points, channel, openid, status,
       close_reason, flag, prepay_body, prepay_code, prepay_until, created_at, expires_at, transaction_id, paid_at,
       refunded_fen, refunded_points, request_hash, query_tries
  FROM pay_order
 WHERE order_id = %(order_id)s;

-- name: lock_order
SELECT tenant_id, order_id, user_id, out_trade_no, mchid, appid, package_id, amount_fen, points, channel, openid, status,
       close_reason, flag, prepay_body, prepay_code, prepay_until, created_at, expires_at, transaction_id, paid_at,
       refunded_fen, refunded_points, request_hash, query_tries
  FROM pay_order
 WHERE order_id = %(order_id)s
   FOR UPDATE;

-- name: order_of_trade_no
-- Across tenants, because a notification names no tenant.
SELECT tenant_id, order_id, user_id, out_trade_no, mchid, appid, package_id, amount_fen, points, channel, openid, status,
       close_reason, flag, prepay_body, prepay_code, prepay_until, created_at, expires_at, transaction_id, paid_at,
       refunded_fen, refunded_points, request_hash, query_tries
  FROM pay_order
 WHERE out_trade_no = %(out_trade_no)s;

-- name: orders_page
SELECT tenant_id, order_id, user_id, out_trade_no, mchid, appid, package_id, amount_fen, points, channel, openid, status,
       close_reason, flag, prepay_body, prepay_code, prepay_until, created_at, expires_at, transaction_id, paid_at,
       refunded_fen, refunded_points, request_hash, query_tries
  FROM pay_order
 WHERE (%(user_id)s::uuid IS NULL OR user_id = %(user_id)s)
   AND (%(before)s::uuid IS NULL OR order_id < %(before)s)
 ORDER BY order_id DESC
 LIMIT %(limit)s;

-- name: keep_prepay
-- The answer may arrive after the payment, so only an open order changes. Of two concurrent requests the first code
-- stays, so that both return the same one.
UPDATE pay_order
   SET prepay_code = %(code)s, prepay_until = %(until)s, status = 'PAYING'
 WHERE order_id = %(order_id)s AND status IN ('CREATED', 'PAYING') AND (prepay_until IS NULL OR prepay_until <= %(now)s);

-- name: close_order
UPDATE pay_order SET status = 'CLOSED', close_reason = %(reason)s WHERE order_id = %(order_id)s AND status IN ('CREATED', 'PAYING');

-- name: complete_order
-- A payment also completes a closed order. PAID and COMPLETED are one step.
UPDATE pay_order
   SET status = 'COMPLETED', close_reason = NULL, transaction_id = %(transaction_id)s, paid_at = %(paid_at)s, completed_at = %(now)s,
       payer_openid = %(payer_openid)s, payer_total_fen = %(payer_total_fen)s,
       flag = CASE WHEN status = 'CLOSED' THEN 'PAID_LATE' END
 WHERE order_id = %(order_id)s AND transaction_id IS NULL;

-- name: flag_order
UPDATE pay_order SET flag = %(flag)s WHERE order_id = %(order_id)s;

-- name: reassign_transaction
-- Across tenants: a payment that was reported for another order and not credited moves to this order.
UPDATE pay_transaction
   SET tenant_id = %(tenant_id)s, order_id = %(order_id)s, out_trade_no = %(out_trade_no)s
 WHERE mchid = %(mchid)s AND transaction_id = %(transaction_id)s AND outcome <> 'CREDITED'
   AND (tenant_id, order_id) IS DISTINCT FROM (%(tenant_id)s::uuid, %(order_id)s::uuid);

-- name: record_transaction
-- A later report replaces an earlier one, but never a credited one. No row: the transaction is credited already, maybe to
-- another order or in another tenant, whose row is not visible here.
INSERT INTO pay_transaction (mchid, transaction_id, tenant_id, order_id, out_trade_no, outcome, amount_fen, currency, paid_at, source, seen_at)
VALUES (%(mchid)s, %(transaction_id)s, current_tenant(), %(order_id)s, %(out_trade_no)s, %(outcome)s, %(amount_fen)s, %(currency)s,
        %(paid_at)s, %(source)s, %(now)s)
ON CONFLICT (mchid, transaction_id) DO UPDATE
   SET outcome = excluded.outcome, amount_fen = excluded.amount_fen, currency = excluded.currency, paid_at = excluded.paid_at,
       source = excluded.source
 WHERE pay_transaction.outcome <> 'CREDITED'
   AND pay_transaction.tenant_id = excluded.tenant_id AND pay_transaction.order_id = excluded.order_id;

-- name: record_stray_transaction
INSERT INTO pay_transaction (mchid, transaction_id, out_trade_no, outcome, amount_fen, currency, paid_at, source, seen_at)
VALUES (%(mchid)s, %(transaction_id)s, %(out_trade_no)s, %(outcome)s, %(amount_fen)s, %(currency)s, %(paid_at)s, %(source)s, %(now)s)
ON CONFLICT (mchid, transaction_id) DO NOTHING;

-- name: claim_due_orders
-- The lease keeps two runs from querying the same orders. If a run dies, its orders are due again when the lease ends.
UPDATE pay_order AS claimed
   SET next_query_at = %(leased_until)s, query_tries = claimed.query_tries + 1
  FROM (SELECT tenant_id, order_id
          FROM pay_order
         WHERE status IN ('CREATED', 'PAYING') AND next_query_at <= %(now)s
         ORDER BY next_query_at
         LIMIT %(limit)s
           FOR UPDATE SKIP LOCKED) AS due
 WHERE claimed.tenant_id = due.tenant_id AND claimed.order_id = due.order_id
RETURNING claimed.tenant_id, claimed.order_id, user_id, out_trade_no, mchid, appid, package_id, amount_fen, points, channel, openid,
          status, close_reason, flag, prepay_body, prepay_code, prepay_until, created_at, expires_at, transaction_id, paid_at,
          refunded_fen, refunded_points, request_hash, query_tries;

-- name: postpone_order
UPDATE pay_order SET next_query_at = %(at)s WHERE tenant_id = %(tenant_id)s AND order_id = %(order_id)s;

-- name: claim_poll
-- A page that polls often causes one query per interval.
UPDATE pay_order
   SET polled_at = %(now)s
 WHERE order_id = %(order_id)s AND status IN ('CREATED', 'PAYING') AND (polled_at IS NULL OR polled_at <= %(asked_before)s);

-- name: add_refund
INSERT INTO pay_refund (tenant_id, refund_id, order_id, out_refund_no, amount_fen, points, points_taken, is_debited, is_external, reason,
                        request_body, status, wechat_id, started_at, ended_at, idempotency_key, request_hash, next_query_at)
VALUES (current_tenant(), %(refund_id)s, %(order_id)s, %(out_refund_no)s, %(amount_fen)s, %(points)s, %(points_taken)s, %(is_debited)s,
        %(is_external)s, %(reason)s, %(request_body)s, %(status)s, %(wechat_id)s, %(started_at)s, %(ended_at)s, %(idempotency_key)s,
        %(request_hash)s, %(next_query_at)s)
ON CONFLICT (out_refund_no) DO NOTHING;

-- name: reserve_refund
UPDATE pay_order
   SET refunded_fen = refunded_fen + %(amount_fen)s, refunded_points = refunded_points + %(points)s
 WHERE order_id = %(order_id)s;

-- name: refund_of_key
SELECT tenant_id, refund_id, order_id, out_refund_no, amount_fen, points, points_taken, is_debited, is_external, reason, request_body,
       status, started_at, request_hash, query_tries
  FROM pay_refund
 WHERE idempotency_key = %(idempotency_key)s;

-- name: forget_refund_key
UPDATE pay_refund SET idempotency_key = NULL WHERE idempotency_key = %(idempotency_key)s AND started_at < %(kept_since)s;

-- name: refunds_of_order
SELECT tenant_id, refund_id, order_id, out_refund_no, amount_fen, points, points_taken, is_debited, is_external, reason, request_body,
       status, started_at, request_hash, query_tries
  FROM pay_refund
 WHERE order_id = %(order_id)s
 ORDER BY started_at, refund_id;

-- name: refunds_page
SELECT refund.refund_id, refund.order_id, refund.amount_fen, refund.points, refund.status, refund.reason, refund.started_at,
       refund.ended_at
  FROM pay_refund AS refund JOIN pay_order AS paid USING (tenant_id, order_id)
 WHERE (%(user_id)s::uuid IS NULL OR paid.user_id = %(user_id)s)
   AND (%(order_id)s::uuid IS NULL OR refund.order_id = %(order_id)s)
   AND (%(before)s::uuid IS NULL OR refund.refund_id < %(before)s)
 ORDER BY refund.refund_id DESC
 LIMIT %(limit)s;

-- name: buyer
SELECT tenant.name AS tenant_name, person.email, person.phone, person.display_name
  FROM app_user AS person JOIN tenant USING (tenant_id)
 WHERE person.user_id = %(user_id)s;

-- name: move_refund
UPDATE pay_refund
   SET status = %(status)s, wechat_id = coalesce(%(wechat_id)s, wechat_id), started_at = coalesce(%(started_at)s, started_at),
       ended_at = %(ended_at)s
 WHERE refund_id = %(refund_id)s;

-- name: debit_refund
UPDATE pay_refund SET is_debited = true, points_taken = %(points_taken)s WHERE refund_id = %(refund_id)s;

-- name: set_order_status
UPDATE pay_order SET status = %(status)s WHERE order_id = %(order_id)s AND transaction_id IS NOT NULL;

-- name: claim_due_refunds
UPDATE pay_refund AS claimed
   SET next_query_at = %(leased_until)s, query_tries = claimed.query_tries + 1
  FROM (SELECT tenant_id, refund_id
          FROM pay_refund
         WHERE status IN ('REQUESTED', 'PROCESSING') AND next_query_at <= %(now)s
         ORDER BY next_query_at
         LIMIT %(limit)s
           FOR UPDATE SKIP LOCKED) AS due
 WHERE claimed.tenant_id = due.tenant_id AND claimed.refund_id = due.refund_id
RETURNING claimed.tenant_id, claimed.refund_id, order_id, out_refund_no, amount_fen, points, points_taken, is_debited, is_external, reason,
          request_body, status, started_at, request_hash, query_tries;

-- name: postpone_refund
UPDATE pay_refund SET next_query_at = %(at)s WHERE tenant_id = %(tenant_id)s AND refund_id = %(refund_id)s;

-- name: add_alert
INSERT INTO pay_alert (alert_key, tenant_id, kind, details, created_at)
VALUES (%(key)s, current_tenant(), %(kind)s, %(details)s, %(now)s)
ON CONFLICT DO NOTHING;

-- name: unsent_alerts
SELECT alert_key, kind, details, created_at
  FROM pay_alert
 WHERE sent_at IS NULL AND (%(keys)s::text[] IS NULL OR alert_key = ANY (%(keys)s))
 ORDER BY created_at
 LIMIT %(limit)s
   FOR UPDATE SKIP LOCKED;

-- name: mark_alert_sent
UPDATE pay_alert SET sent_at = %(now)s WHERE alert_key = %(key)s;

-- name: bill_days
SELECT day, status FROM bill_day WHERE day BETWEEN %(first)s AND %(last)s;

-- name: first_paid_at
SELECT min(paid_at) AS paid_at FROM pay_order WHERE paid_at IS NOT NULL;

-- name: keep_bill_day
INSERT INTO bill_day (day, status, tries, payments, refunds, total_fen, differences, last_error, updated_at)
VALUES (%(day)s, %(status)s, 1, %(payments)s, %(refunds)s, %(total_fen)s, %(differences)s, %(last_error)s, %(now)s)
ON CONFLICT (day) DO UPDATE
   SET status = excluded.status, tries = bill_day.tries + 1, payments = excluded.payments, refunds = excluded.refunds,
       total_fen = excluded.total_fen, differences = excluded.differences, last_error = excluded.last_error,
       updated_at = excluded.updated_at;

-- name: payments_between
-- By WeChat's time of payment, not by the time at which the report arrived.
SELECT tenant_id, order_id, out_trade_no, transaction_id, amount_fen
  FROM pay_order
 WHERE paid_at >= %(start)s AND paid_at < %(end)s;

-- name: refunds_between
SELECT refund.tenant_id, refund.order_id, refund.out_refund_no, refund.amount_fen, paid.out_trade_no
  FROM pay_refund AS refund
  JOIN pay_order AS paid USING (tenant_id, order_id)
 WHERE refund.started_at >= %(start)s AND refund.started_at < %(end)s AND refund.status NOT IN ('REQUESTED', 'CLOSED');

-- name: known_payments
SELECT known.transaction_id, known.outcome, known.amount_fen FROM pay_transaction AS known WHERE known.transaction_id = ANY (%(ids)s);

-- name: orders_of_trade_nos
SELECT tenant_id, order_id, out_trade_no, transaction_id, amount_fen FROM pay_order WHERE out_trade_no = ANY (%(numbers)s);

-- name: known_refunds
SELECT tenant_id, order_id, out_refund_no, amount_fen FROM pay_refund WHERE out_refund_no = ANY (%(numbers)s);

-- name: add_difference
INSERT INTO bill_difference (day, kind, reference, tenant_id, order_id, ours_fen, theirs_fen, resolution, found_at)
VALUES (%(day)s, %(kind)s, %(reference)s, %(tenant_id)s, %(order_id)s, %(ours_fen)s, %(theirs_fen)s, 'OPEN', %(now)s)
ON CONFLICT (day, kind, reference) DO NOTHING;

-- name: resolve_differences
-- A difference that this comparison does not find any more is repaired.
UPDATE bill_difference
   SET resolution = 'REPAIRED', resolved_at = %(now)s
 WHERE day = %(day)s AND resolution = 'OPEN' AND NOT (kind || ':' || reference = ANY (%(still)s));

-- name: resolve_difference
UPDATE bill_difference
   SET resolution = 'REPAIRED', resolved_at = %(now)s
 WHERE day = %(day)s AND kind = %(kind)s AND reference = %(reference)s AND resolution = 'OPEN';

-- name: finish_bill_day
UPDATE bill_day SET status = 'DONE', updated_at = %(now)s WHERE day = %(day)s;

-- name: bill_days_page
SELECT day, status, tries, payments, refunds, total_fen, differences, last_error, updated_at
  FROM bill_day
 WHERE day < %(before)s
 ORDER BY day DESC
 LIMIT %(limit)s;

-- name: differences_of_day
SELECT kind, reference, tenant_id, order_id, ours_fen, theirs_fen, resolution, found_at, resolved_at
  FROM bill_difference
 WHERE day = %(day)s
 ORDER BY kind, reference
 LIMIT %(limit)s;
