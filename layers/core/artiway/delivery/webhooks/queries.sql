-- name: webhooks
SELECT webhook_id, url, secret, is_implied, created_at
  FROM webhook
 WHERE tenant_id = current_tenant() AND deleted_at IS NULL AND (%(before)s::uuid IS NULL OR webhook_id < %(before)s)
 ORDER BY webhook_id DESC
 LIMIT %(limit)s;

-- name: webhooks_by_id
SELECT webhook_id, url, secret, is_implied, created_at
  FROM webhook
 WHERE tenant_id = current_tenant() AND webhook_id = ANY (%(webhook_ids)s::uuid[]) AND deleted_at IS NULL;

-- name: webhook
SELECT webhook_id, url, secret, is_implied, created_at FROM webhook WHERE webhook_id = %(webhook_id)s AND deleted_at IS NULL;

-- name: lock_webhooks
-- A statement of its own, so that the next one counts the rows that other transactions have committed.
SELECT pg_advisory_xact_lock(7, hashtext(current_tenant()::text));

-- name: put_webhook
-- A URL has one webhook. Registering an implied webhook makes it receive every task, with a new secret. At the limit nothing
-- is inserted, unless the URL is registered already.
INSERT INTO webhook (tenant_id, webhook_id, url, secret)
SELECT current_tenant(), %(webhook_id)s, %(url)s, %(secret)s
  FROM (SELECT count(*) AS registered, coalesce(bool_or(url = %(url)s), false) AS is_known
          FROM webhook
         WHERE tenant_id = current_tenant() AND deleted_at IS NULL AND NOT is_implied) AS present
 WHERE registered < %(limit)s OR is_known
ON CONFLICT (tenant_id, url) WHERE deleted_at IS NULL DO UPDATE SET secret = excluded.secret, is_implied = false
RETURNING webhook_id, url, secret, is_implied, created_at;

-- name: has_registered
SELECT EXISTS (SELECT FROM webhook WHERE tenant_id = current_tenant() AND deleted_at IS NULL AND NOT is_implied) AS is_found;

-- name: imply_webhook
-- A repeated message does not restore a webhook that was deleted meanwhile.
INSERT INTO webhook (tenant_id, webhook_id, url, secret, is_implied)
SELECT current_tenant(), %(webhook_id)s, %(url)s, %(secret)s, true
 WHERE NOT EXISTS (SELECT FROM webhook_delivery AS delivery JOIN webhook AS named USING (tenant_id, webhook_id)
                    WHERE delivery.tenant_id = current_tenant() AND delivery.task_id = %(task_id)s
                      AND delivery.run = %(run)s AND named.url = %(url)s)
ON CONFLICT (tenant_id, url) WHERE deleted_at IS NULL DO NOTHING;

-- name: evict_implied
-- Deletes the oldest implied webhooks above the limit. A webhook with a pending delivery stays.
UPDATE webhook
   SET deleted_at = clock_timestamp()
 WHERE tenant_id = current_tenant()
   AND webhook_id IN (SELECT idle.webhook_id
                        FROM webhook AS idle
                       WHERE idle.tenant_id = current_tenant() AND idle.deleted_at IS NULL AND idle.is_implied
                         AND NOT EXISTS (SELECT FROM webhook_delivery AS delivery
                                          WHERE delivery.tenant_id = idle.tenant_id
                                            AND delivery.webhook_id = idle.webhook_id AND delivery.status = 'PENDING')
                       ORDER BY idle.webhook_id
                       LIMIT (SELECT greatest(count(*) - %(limit)s, 0) FROM webhook
                               WHERE tenant_id = current_tenant() AND deleted_at IS NULL AND is_implied));

-- name: fan_out
-- One delivery for each webhook of a page, in one statement. Above the tenant's limit of pending deliveries a delivery is
-- stored as failed and not sent; the log shows it, and a user can redeliver it. Of the others, as many get a message as the
-- tenant may send now, at least one; the rest is parked.
WITH listener AS MATERIALIZED (
    SELECT webhook_id, row_number() OVER (ORDER BY webhook_id) AS place
      FROM webhook
     WHERE tenant_id = current_tenant() AND deleted_at IS NULL AND (NOT is_implied OR url = %(url)s)
       AND (%(after)s::uuid IS NULL OR webhook_id > %(after)s)
     ORDER BY webhook_id
     LIMIT %(limit)s
), pending AS MATERIALIZED (
    SELECT count(*) AS deliveries
      FROM (SELECT FROM webhook_delivery
             WHERE tenant_id = current_tenant() AND status = 'PENDING'
             LIMIT %(pending_limit)s) AS one
), free AS MATERIALIZED (
    SELECT greatest(1, %(sends)s - count(*)) AS sends
      FROM webhook_delivery
     WHERE tenant_id = current_tenant() AND sending_until > clock_timestamp()
), inserted AS (
    INSERT INTO webhook_delivery (tenant_id, delivery_id, webhook_id, event, body, task_id, run, status, answer, parked_at)
    SELECT current_tenant(), (%(delivery_ids)s::uuid[])[place], webhook_id, %(event)s, %(body)s, %(task_id)s, %(run)s,
           CASE WHEN deliveries + place <= %(pending_limit)s THEN 'PENDING' ELSE 'FAILED' END,
           CASE WHEN deliveries + place <= %(pending_limit)s THEN NULL ELSE %(refusal)s END,
           CASE WHEN deliveries + place <= %(pending_limit)s AND place > sends THEN clock_timestamp() END
      FROM listener, pending, free
    ON CONFLICT (tenant_id, task_id, run, webhook_id) WHERE task_id IS NOT NULL DO NOTHING
    RETURNING delivery_id, status, parked_at
)
SELECT (SELECT coalesce(array_agg(delivery_id ORDER BY delivery_id), '{}') FROM inserted
         WHERE status = 'PENDING' AND parked_at IS NULL) AS delivery_ids,
       (SELECT count(*) FROM inserted WHERE status = 'PENDING') AS created,
       (SELECT count(*) FROM listener) AS listeners,
       (SELECT webhook_id FROM listener ORDER BY place DESC LIMIT 1) AS last_webhook_id;

-- name: delete_webhook
UPDATE webhook SET deleted_at = clock_timestamp() WHERE webhook_id = %(webhook_id)s AND deleted_at IS NULL;

-- name: insert_delivery
-- A delivery without a task, such as a test.
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

-- name: lock_sends
-- Taken when a send begins and when it ends: so a delivery is parked before the end that claims or publishes it.
SELECT pg_advisory_xact_lock(8, hashtext(current_tenant()::text));

-- name: take_deliveries
-- Claimed before they are sent: a second copy of a message finds a later next_try_at, and a crash only delays the delivery.
UPDATE webhook_delivery
   SET attempts = attempts + 1, next_try_at = clock_timestamp() + make_interval(secs => %(lease_s)s),
       sending_until = clock_timestamp() + make_interval(secs => %(lease_s)s), parked_at = NULL
 WHERE tenant_id = current_tenant()
   AND delivery_id = ANY (ARRAY (
       SELECT delivery_id FROM webhook_delivery
        WHERE tenant_id = current_tenant() AND delivery_id = ANY (%(delivery_ids)s::uuid[])
          AND status = 'PENDING' AND next_try_at <= clock_timestamp()
        ORDER BY delivery_id
        LIMIT greatest(0, %(sends)s - (SELECT count(*) FROM webhook_delivery
                                        WHERE tenant_id = current_tenant() AND sending_until > clock_timestamp()))))
RETURNING delivery_id, webhook_id, event, body, status, attempts, next_try_at, answer_code, answer, created_at, delivered_at,
          (SELECT trace_id FROM task WHERE task.task_id = webhook_delivery.task_id) AS trace_id;

-- name: park_deliveries
-- Those of the batch that were not claimed.
UPDATE webhook_delivery
   SET parked_at = clock_timestamp()
 WHERE tenant_id = current_tenant() AND delivery_id = ANY (%(delivery_ids)s::uuid[])
   AND status = 'PENDING' AND next_try_at <= clock_timestamp();

-- name: unpark_deliveries
UPDATE webhook_delivery
   SET parked_at = NULL
 WHERE tenant_id = current_tenant()
   AND delivery_id = ANY (ARRAY (SELECT delivery_id FROM webhook_delivery
                                  WHERE tenant_id = current_tenant() AND parked_at IS NOT NULL AND status = 'PENDING'
                                  ORDER BY parked_at, delivery_id
                                  LIMIT %(limit)s))
RETURNING delivery_id;

-- name: note_answers
UPDATE webhook_delivery AS delivery
   SET status = tried.status, answer_code = tried.code, answer = tried.answer, sending_until = NULL,
       next_try_at = clock_timestamp() + make_interval(secs => tried.delay_s),
       delivered_at = CASE WHEN tried.status = 'DELIVERED' THEN clock_timestamp() END
  FROM json_to_recordset(%(tries)s::json)
       AS tried (delivery_id uuid, attempts integer, status text, code integer, answer text, delay_s float8)
 WHERE delivery.tenant_id = current_tenant() AND delivery.delivery_id = tried.delivery_id
   AND delivery.status = 'PENDING' AND delivery.attempts = tried.attempts
RETURNING delivery.delivery_id;

-- name: redeliver
UPDATE webhook_delivery
   SET status = 'PENDING', attempts = 0, next_try_at = clock_timestamp(), delivered_at = NULL, sending_until = NULL
 WHERE delivery_id = %(delivery_id)s AND webhook_id = %(webhook_id)s;

-- name: due_deliveries
-- The first delivery of each tenant, then the second of each: a tenant with thousands does not displace a tenant with one.
SELECT tenant_id, delivery_id, (SELECT trace_id FROM task WHERE task.task_id = due.task_id) AS trace_id
  FROM tenant
 CROSS JOIN LATERAL (SELECT delivery_id, delivery.task_id, next_try_at, row_number() OVER (ORDER BY next_try_at, delivery_id) AS place
                       FROM webhook_delivery AS delivery
                      WHERE delivery.tenant_id = tenant.tenant_id AND delivery.status = 'PENDING'
                        AND delivery.next_try_at <= clock_timestamp() - interval '30 seconds'
                      ORDER BY next_try_at, delivery_id
                      LIMIT %(tenant_limit)s) AS due
 ORDER BY place, next_try_at
 LIMIT %(limit)s;
