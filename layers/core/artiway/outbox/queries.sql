-- name: serialise_writers
SELECT outbox_serialise(%(tenant_ids)s::uuid[], %(aggregates)s::text[]);

-- name: publish
SELECT outbox_id, is_due FROM outbox_publish(%(messages)s::json, %(trace_id)s);

-- name: mark_sent
SELECT outbox_sent(%(tenant_id)s, %(ids)s::bigint[]);

-- name: lock_overdue
-- Oldest first. Another sweep skips these rows.
SELECT outbox_id, tenant_id, aggregate, destination, body, delay_s, trace_id
  FROM outbox
 WHERE sent_at IS NULL AND created_at <= clock_timestamp() - make_interval(secs => %(age_s)s)
 ORDER BY created_at, outbox_id
 LIMIT %(limit)s
   FOR UPDATE SKIP LOCKED;

-- name: oldest_unsent_age_s
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8 AS age_s FROM outbox WHERE sent_at IS NULL;
