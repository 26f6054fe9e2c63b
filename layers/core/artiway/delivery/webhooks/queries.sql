-- name: webhooks
SELECT webhook_id, url, secret, is_implied, created_at
  FROM webhook
 WHERE tenant_id = current_tenant() AND deleted_at IS NULL AND (%(before)s::uuid IS NULL OR webhook_id < %(before)s)
 ORDER BY webhook_id DESC
 LIMIT %(limit)s;

-- name: webhook
SELECT webhook_id, url, secret, is_implied, created_at FROM webhook WHERE webhook_id = %(webhook_id)s AND deleted_at IS NULL;

-- name: put_webhook
-- One address is one webhook. Registering an implied one makes it hear of every task, with a new secret.
INSERT INTO webhook (tenant_id, webhook_id, url, secret)
VALUES (current_tenant(), %(webhook_id)s, %(url)s, %(secret)s)
ON CONFLICT (tenant_id, url) WHERE deleted_at IS NULL DO UPDATE SET secret = excluded.secret, is_implied = false
RETURNING webhook_id, url, secret, is_implied, created_at;

-- name: imply_webhook
INSERT INTO webhook (tenant_id, webhook_id, url, secret, is_implied)
VALUES (current_tenant(), %(webhook_id)s, %(url)s, %(secret)s, true)
ON CONFLICT (tenant_id, url) WHERE deleted_at IS NULL DO NOTHING;

-- name: listeners
SELECT webhook_id FROM webhook
 WHERE tenant_id = current_tenant() AND deleted_at IS NULL AND (NOT is_implied OR url = %(url)s);

-- name: delete_webhook
UPDATE webhook SET deleted_at = clock_timestamp() WHERE webhook_id = %(webhook_id)s AND deleted_at IS NULL;

-- name: insert_delivery
INSERT INTO webhook_delivery (tenant_id, delivery_id, webhook_id, event, body)
VALUES (current_tenant(), %(delivery_id)s, %(webhook_id)s, %(event)s, %(body)s);

-- name: deliveries
SELECT delivery_id, webhook_id, event, body, status, attempts, next_try_at, answer_code, answer, created_at, delivered_at
  FROM webhook_delivery
 WHERE webhook_id = %(webhook_id)s AND (%(before)s::uuid IS NULL OR delivery_id < %(before)s)
 ORDER BY delivery_id DESC
 LIMIT %(limit)s;

-- name: delivery
SELECT delivery_id, webhook_id, event, body, status, attempts, next_try_at, answer_code, answer, created_at, delivered_at
  FROM webhook_delivery
 WHERE delivery_id = %(delivery_id)s;

-- name: take_delivery
-- Taken before it is sent: a second copy of the message finds a later try, and a crash costs a wait, not the delivery.
UPDATE webhook_delivery
   SET attempts = attempts + 1, next_try_at = clock_timestamp() + make_interval(secs => %(lease_s)s)
 WHERE delivery_id = %(delivery_id)s AND status = 'PENDING' AND next_try_at <= clock_timestamp()
RETURNING delivery_id, webhook_id, event, body, status, attempts, next_try_at, answer_code, answer, created_at, delivered_at;

-- name: note_answer
UPDATE webhook_delivery
   SET status = %(status)s, answer_code = %(code)s, answer = %(answer)s,
       next_try_at = clock_timestamp() + make_interval(secs => %(delay_s)s),
       delivered_at = CASE WHEN %(status)s = 'DELIVERED' THEN clock_timestamp() END
 WHERE delivery_id = %(delivery_id)s AND status = 'PENDING' AND attempts = %(attempts)s;

-- name: redeliver
UPDATE webhook_delivery
   SET status = 'PENDING', attempts = 0, next_try_at = clock_timestamp(), delivered_at = NULL
 WHERE delivery_id = %(delivery_id)s AND webhook_id = %(webhook_id)s;

-- name: due_deliveries
SELECT tenant_id, delivery_id FROM webhook_delivery
 WHERE status = 'PENDING' AND next_try_at <= clock_timestamp() - interval '30 seconds'
 ORDER BY next_try_at
 LIMIT %(limit)s;
