-- name: lock_sockets_of_tenant
-- The sockets of a tenant open one at a time, so that each is counted before the next. A statement of its own, because a
-- statement sees the rows that were committed when it began.
SELECT pg_advisory_xact_lock(6, hashtext(%(tenant_id)s::uuid::text));

-- name: admission
SELECT is_socket_allowed(%(tenant_id)s, %(user_id)s, %(session_id)s, 'user') AS is_session_open,
       is_tenant_wide_allowed(%(tenant_id)s, %(user_id)s) AS is_tenant_wide_allowed,
       (SELECT count(*) FROM websocket_connection AS socket
         WHERE socket.tenant_id = %(tenant_id)s AND socket.user_id = %(user_id)s AND socket.closed_at IS NULL
           AND socket.expires_at > clock_timestamp() AND connection_id <> %(connection_id)s) AS user_sockets,
       (SELECT count(*) FROM websocket_connection AS socket
         WHERE socket.tenant_id = %(tenant_id)s AND socket.closed_at IS NULL
           AND socket.expires_at > clock_timestamp() AND connection_id <> %(connection_id)s) AS tenant_sockets;

-- name: wait_for_writers_of_tenant
-- Afterwards every writer of the tenant's events has committed or will see the socket: see outbox_serialise.
SELECT pg_advisory_xact_lock(4, hashtext(%(tenant_id)s::uuid::text));

-- name: take_over
-- The socket of this session that closed last: the new socket continues after its last event. Only one socket can.
DELETE FROM websocket_connection
 WHERE connection_id = (SELECT connection_id
                          FROM websocket_connection
                         WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND session_id = %(session_id)s
                           AND scope = %(scope)s AND closed_at > clock_timestamp() - make_interval(secs => %(resume_s)s)
                         ORDER BY closed_at DESC
                         LIMIT 1
                           FOR UPDATE SKIP LOCKED)
RETURNING last_sent;

-- name: newest_event_of_user
SELECT coalesce(max(outbox_id), 0) AS number
  FROM outbox
 WHERE destination = 'push' AND tenant_id = %(tenant_id)s AND aggregate = %(aggregate)s;

-- name: newest_event_of_tenant
SELECT coalesce(max(outbox_id), 0) AS number
  FROM outbox
 WHERE destination = 'push' AND aggregate LIKE 'user:%%' AND tenant_id = %(tenant_id)s;

-- name: insert_connection
-- Events of a user, and of a tenant with a tenant-wide socket, are written in the order of commits: an event that commits
-- later has a higher number than every visible one. A cursor above the newest number is lowered to it.
INSERT INTO websocket_connection (connection_id, tenant_id, user_id, session_id, scope, expires_at, last_sent)
VALUES (%(connection_id)s, %(tenant_id)s, %(user_id)s, %(session_id)s, %(scope)s, %(expires_at)s,
        least(%(after)s::bigint, %(newest)s))
ON CONFLICT (connection_id) DO NOTHING
RETURNING last_sent;

-- name: close_connection
-- The row stays for a while, so that the next socket of the session can continue after it.
UPDATE websocket_connection SET closed_at = clock_timestamp(), posting = NULL, posting_until = NULL
 WHERE connection_id = ANY (%(connection_ids)s::text[]) AND closed_at IS NULL;

-- name: sockets_of_user
-- The sockets that receive the user's events: the user's own ones and the tenant-wide ones.
(SELECT connection_id, scope, last_sent, is_greeted, posting IS NOT NULL AS is_busy,
        coalesce(posting_until <= clock_timestamp(), false) AS is_uncertain,
        is_socket_allowed(tenant_id, user_id, session_id, scope) AS is_allowed
   FROM websocket_connection
  WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND scope = 'user'
    AND closed_at IS NULL AND expires_at > clock_timestamp()
    AND connected_at <= clock_timestamp() - make_interval(secs => %(settling_s)s)
  ORDER BY connected_at
  LIMIT 100)
UNION ALL
(SELECT connection_id, scope, last_sent, is_greeted, posting IS NOT NULL AS is_busy,
        coalesce(posting_until <= clock_timestamp(), false) AS is_uncertain,
        is_socket_allowed(tenant_id, user_id, session_id, scope) AS is_allowed
   FROM websocket_connection
  WHERE tenant_id = %(tenant_id)s AND scope = 'tenant'
    AND closed_at IS NULL AND expires_at > clock_timestamp()
    AND connected_at <= clock_timestamp() - make_interval(secs => %(settling_s)s)
  ORDER BY connected_at
  LIMIT 1000);

-- name: ended_sockets
-- The sockets that is_socket_allowed refuses, as a join: calling the function would run a query for each socket.
SELECT connection_id
  FROM websocket_connection AS socket
 WHERE closed_at IS NULL AND connected_at <= clock_timestamp() - make_interval(secs => %(settling_s)s)
   AND NOT EXISTS (SELECT FROM open_session
                    WHERE open_session.tenant_id = socket.tenant_id AND open_session.session_id = socket.session_id
                      AND open_session.user_id = socket.user_id)
UNION
SELECT connection_id
  FROM websocket_connection
 WHERE scope = 'tenant' AND closed_at IS NULL
   AND connected_at <= clock_timestamp() - make_interval(secs => %(settling_s)s)
   AND NOT is_tenant_wide_allowed(tenant_id, user_id)
 LIMIT %(limit)s;

-- name: events_of_user
SELECT outbox_id, aggregate, outbox.body, event.body AS event
  FROM outbox
  LEFT JOIN task_event AS event
    ON event.tenant_id = outbox.tenant_id AND event.task_id = outbox.task_id AND event.sequence = outbox.sequence
 WHERE destination = 'push' AND outbox.tenant_id = %(tenant_id)s AND aggregate = %(aggregate)s AND outbox_id > %(after)s
   AND (outbox.task_id IS NULL OR event.task_id IS NOT NULL)
 ORDER BY outbox_id
 LIMIT %(limit)s;

-- name: events_of_tenant
SELECT outbox_id, aggregate, outbox.body, event.body AS event
  FROM outbox
  LEFT JOIN task_event AS event
    ON event.tenant_id = outbox.tenant_id AND event.task_id = outbox.task_id AND event.sequence = outbox.sequence
 WHERE destination = 'push' AND aggregate LIKE 'user:%%' AND outbox.tenant_id = %(tenant_id)s AND outbox_id > %(after)s
   AND (outbox.task_id IS NULL OR event.task_id IS NOT NULL)
 ORDER BY outbox_id
 LIMIT %(limit)s;

-- name: newest_event_at
SELECT created_at
  FROM outbox
 WHERE destination = 'push' AND tenant_id = %(tenant_id)s AND aggregate = %(aggregate)s
 ORDER BY outbox_id DESC
 LIMIT 1;

-- name: claim_sockets
-- Committed before the first post: after a crash the claim shows that the socket may have received more than `last_sent`.
-- A socket behind `after` opened after the events were read, so its events were not read. A locked row is being claimed or
-- released by a call that checks again afterwards. A socket whose session ended, or that expired (its writers are no longer
-- serialised), is not claimed.
UPDATE websocket_connection
   SET posting = %(until)s, posting_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
 WHERE connection_id IN (SELECT connection_id
                           FROM websocket_connection
                          WHERE connection_id = ANY (%(connection_ids)s::text[]) AND posting IS NULL AND closed_at IS NULL
                            AND last_sent >= %(after)s AND (last_sent < %(until)s OR NOT is_greeted)
                            AND expires_at > clock_timestamp()
                            AND is_socket_allowed(tenant_id, user_id, session_id, scope)
                            FOR UPDATE SKIP LOCKED)
RETURNING connection_id, last_sent, is_greeted;

-- name: settle_socket
UPDATE websocket_connection
   SET last_sent = greatest(last_sent, %(last_sent)s), is_greeted = %(is_greeted)s, posting = NULL, posting_until = NULL,
       closed_at = coalesce(closed_at, CASE WHEN %(is_closed)s THEN clock_timestamp() END)
 WHERE connection_id = %(connection_id)s AND posting = %(until)s;

-- name: forget_expired
DELETE FROM websocket_connection
 WHERE expires_at <= clock_timestamp() OR closed_at <= clock_timestamp() - make_interval(secs => %(resume_s)s);
