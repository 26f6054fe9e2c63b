-- name: serialise_writers
SELECT outbox_serialise(%(tenant_ids)s::uuid[], %(aggregates)s::text[]);

-- name: publish
SELECT outbox_id, is_due FROM outbox_publish(%(messages)s::json, %(trace_id)s);

-- name: mark_sent
SELECT outbox_sent(%(tenant_id)s, %(ids)s::bigint[], %(token_ids)s::uuid[]);

-- name: lock_overdue
-- Oldest first. Another sweep skips these rows. The message about a stored event says that its user has events.
SELECT outbox_id, tenant_id, aggregate, destination, delay_s, trace_id, due_at,
       CASE WHEN task_id IS NULL THEN body
            ELSE json_build_object('type', 'wake', 'aggregate', aggregate, 'traceId', trace_id, 'data',
                                   json_build_object('tenantId', tenant_id, 'userId', substr(aggregate, 6)))::text END AS body
  FROM outbox
 WHERE sent_at IS NULL AND created_at <= clock_timestamp() - make_interval(secs => %(age_s)s)
 ORDER BY created_at, outbox_id
 LIMIT %(limit)s
   FOR UPDATE SKIP LOCKED;

-- name: oldest_unsent_age_s
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8 AS age_s FROM outbox WHERE sent_at IS NULL;
