-- name: serialise_writers
-- A statement of its own. A statement sees the rows committed before it began, so an INSERT that waited here for a socket
-- to open would not see that socket.
SELECT outbox_serialise(%(tenant_ids)s::uuid[], %(aggregates)s::text[]);

-- name: insert_messages
SELECT outbox_put(%(messages)s::json, %(trace_id)s) AS aggregate;

-- name: lock_aggregates
-- Waits for another relay that sends this aggregate, then sends the messages that the other one did not see.
SELECT pg_advisory_xact_lock(2, key)
  FROM (SELECT DISTINCT hashtext(aggregate) AS key FROM unnest(%(aggregates)s::text[]) AS aggregate ORDER BY 1) AS keys;

-- name: lock_overdue_aggregates
-- The sweep skips aggregates that another relay has locked, and takes the oldest first.
WITH overdue AS MATERIALIZED (
    SELECT aggregate
      FROM outbox
     WHERE sent_at IS NULL AND created_at <= clock_timestamp() - make_interval(secs => %(age_s)s)
     GROUP BY aggregate
     ORDER BY min(outbox_id)
     LIMIT %(limit)s
)
SELECT aggregate FROM overdue WHERE pg_try_advisory_xact_lock(2, hashtext(aggregate));

-- name: unsent_of_aggregates
SELECT outbox_id, tenant_id, aggregate, destination, body, delay_s, trace_id
  FROM outbox
 WHERE sent_at IS NULL AND aggregate = ANY (%(aggregates)s::text[])
 ORDER BY outbox_id
 LIMIT %(limit)s;

-- name: mark_sent
UPDATE outbox SET sent_at = clock_timestamp() WHERE outbox_id = ANY (%(ids)s::bigint[]) AND sent_at IS NULL;

-- name: oldest_unsent_age_s
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8 AS age_s FROM outbox WHERE sent_at IS NULL;

-- name: purge_sent
DELETE FROM outbox
 WHERE outbox_id IN (SELECT outbox_id FROM outbox
                      WHERE sent_at < statement_timestamp() - make_interval(hours => %(keep_hours)s)
                      ORDER BY sent_at LIMIT %(limit)s);
