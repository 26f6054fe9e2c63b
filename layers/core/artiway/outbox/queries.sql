-- name: serialise_writers
-- On its own where users hear of it: a statement sees what was committed when it began, and one that had to wait here for a
-- socket that opens would not see it.
SELECT pg_advisory_xact_lock(1, key)
  FROM (SELECT DISTINCT hashtext(aggregate) AS key FROM unnest(%(aggregates)s::text[]) AS aggregate ORDER BY 1) AS keys;

-- name: insert_messages
-- In their order, and behind a lock for each aggregate: two transactions that speak of one commit in the order of their
-- rows. The locks are sorted, so that none can deadlock. News of a user to whom nobody listens are kept and not sent.
-- Returns what has to be. One JSON document, since psycopg takes ten times as long over arrays of quoted text.
WITH message AS MATERIALIZED (
    SELECT * FROM ROWS FROM (json_to_recordset(%(messages)s::json)
                             AS (tenant_id uuid, aggregate text, destination text, body text, delay_s smallint))
                  WITH ORDINALITY AS one (tenant_id, aggregate, destination, body, delay_s, place)
), locked AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(1, key)
      FROM (SELECT DISTINCT hashtext(aggregate) AS key FROM message ORDER BY 1) AS keys
), kept AS (
    INSERT INTO outbox (tenant_id, aggregate, destination, body, delay_s, trace_id, sent_at)
    SELECT coalesce(current_tenant(), tenant_id), aggregate, destination, body, delay_s, %(trace_id)s,
           CASE WHEN destination = 'push' AND aggregate LIKE 'user:%%'
                 AND NOT EXISTS (SELECT FROM websocket_connection AS socket
                                  WHERE socket.tenant_id = coalesce(current_tenant(), message.tenant_id)
                                    AND socket.user_id = substr(aggregate, 6)::uuid
                                    AND socket.closed_at IS NULL AND socket.expires_at > clock_timestamp())
                THEN clock_timestamp() END
      FROM message
     WHERE (SELECT count(*) FROM locked) > 0
     ORDER BY place
    RETURNING aggregate, sent_at
)
SELECT DISTINCT aggregate FROM kept WHERE sent_at IS NULL ORDER BY aggregate;

-- name: lock_aggregates
-- Waits for another relay that has the aggregate in hand: what it did not see, we then send.
SELECT pg_advisory_xact_lock(2, key)
  FROM (SELECT DISTINCT hashtext(aggregate) AS key FROM unnest(%(aggregates)s::text[]) AS aggregate ORDER BY 1) AS keys;

-- name: lock_overdue_aggregates
-- The sweep takes what nobody has in hand, oldest first.
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
                      WHERE sent_at < clock_timestamp() - make_interval(hours => %(keep_hours)s)
                      ORDER BY sent_at LIMIT %(limit)s);
