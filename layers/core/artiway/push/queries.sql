-- name: lock_sockets_of_tenant
-- One socket of a tenant opens at a time, so that each is counted before the next. On its own, since a statement sees what
-- was committed when it began.
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
-- Writers of the tenant's events have committed, or will see the socket: see outbox_serialise.
SELECT pg_advisory_xact_lock(4, hashtext(%(tenant_id)s::uuid::text));

-- name: take_over
-- The socket of this session that closed last: its successor goes on where it stood. Taken once.
DELETE FROM websocket_connection
 WHERE connection_id = (SELECT connection_id
                          FROM websocket_connection
                         WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND session_id = %(session_id)s
                           AND scope = %(scope)s AND closed_at > clock_timestamp() - make_interval(secs => %(resume_s)s)
                         ORDER BY closed_at DESC
                         LIMIT 1
                           FOR UPDATE SKIP LOCKED)
RETURNING told;

-- name: newest_event_of_user
SELECT coalesce(max(outbox_id), 0) AS number
  FROM outbox
 WHERE destination = 'push' AND tenant_id = %(tenant_id)s AND aggregate = %(aggregate)s;

-- name: newest_event_of_tenant
SELECT coalesce(max(outbox_id), 0) AS number
  FROM outbox
 WHERE destination = 'push' AND aggregate LIKE 'user:%%' AND tenant_id = %(tenant_id)s;

-- name: remember_connection
-- The outbox of a user, and of a tenant with a tenant-wide socket, is written in the order of commits: what is committed
-- later has a higher number than all that is visible now. A cursor from beyond that is not one of ours.
INSERT INTO websocket_connection (connection_id, tenant_id, user_id, session_id, scope, expires_at, told)
VALUES (%(connection_id)s, %(tenant_id)s, %(user_id)s, %(session_id)s, %(scope)s, %(expires_at)s,
        least(%(after)s::bigint, %(newest)s))
ON CONFLICT (connection_id) DO NOTHING
RETURNING told;

-- name: close_connection
-- Kept for a while, for the one that comes in its place.
UPDATE websocket_connection SET closed_at = clock_timestamp(), posting = NULL, posting_until = NULL
 WHERE connection_id = ANY (%(connection_ids)s::text[]) AND closed_at IS NULL;

-- name: sockets_of_user
-- Those that receive the user's events: the user's own, and those of the tenant that receive all.
(SELECT connection_id, scope, told, is_greeted, posting IS NOT NULL AS is_busy,
        coalesce(posting_until <= clock_timestamp(), false) AS is_doubtful,
        is_socket_allowed(tenant_id, user_id, session_id, scope) AS is_allowed
   FROM websocket_connection
  WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND scope = 'user'
    AND closed_at IS NULL AND expires_at > clock_timestamp()
    AND connected_at <= clock_timestamp() - make_interval(secs => %(settling_s)s)
  ORDER BY connected_at
  LIMIT 100)
UNION ALL
(SELECT connection_id, scope, told, is_greeted, posting IS NOT NULL AS is_busy,
        coalesce(posting_until <= clock_timestamp(), false) AS is_doubtful,
        is_socket_allowed(tenant_id, user_id, session_id, scope) AS is_allowed
   FROM websocket_connection
  WHERE tenant_id = %(tenant_id)s AND scope = 'tenant'
    AND closed_at IS NULL AND expires_at > clock_timestamp()
    AND connected_at <= clock_timestamp() - make_interval(secs => %(settling_s)s)
  ORDER BY connected_at
  LIMIT 1000);

-- name: ended_sockets
-- Those that is_socket_allowed refuses, in one join: a call for each open socket would be a query for each.
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

-- name: news_of_user
SELECT outbox_id, body
  FROM outbox
 WHERE destination = 'push' AND tenant_id = %(tenant_id)s AND aggregate = %(aggregate)s AND outbox_id > %(after)s
 ORDER BY outbox_id
 LIMIT %(limit)s;

-- name: news_of_tenant
SELECT outbox_id, body
  FROM outbox
 WHERE destination = 'push' AND aggregate LIKE 'user:%%' AND tenant_id = %(tenant_id)s AND outbox_id > %(after)s
 ORDER BY outbox_id
 LIMIT %(limit)s;

-- name: newest_news_at
SELECT created_at
  FROM outbox
 WHERE destination = 'push' AND tenant_id = %(tenant_id)s AND aggregate = %(aggregate)s
 ORDER BY outbox_id DESC
 LIMIT 1;

-- name: claim_sockets
-- Committed before the first word is said: whoever finds it after our death knows that the socket may have heard more
-- than `told`. One who stood behind `after` came since we looked, and was not looked up for. A row that is locked is being
-- claimed, or let go of by one who looks again. A socket whose session ended since, or that expired and for which writers
-- no longer wait for each other, is left out.
UPDATE websocket_connection
   SET posting = %(until)s, posting_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
 WHERE connection_id IN (SELECT connection_id
                           FROM websocket_connection
                          WHERE connection_id = ANY (%(connection_ids)s::text[]) AND posting IS NULL AND closed_at IS NULL
                            AND told >= %(after)s AND (told < %(until)s OR NOT is_greeted)
                            AND expires_at > clock_timestamp()
                            AND is_socket_allowed(tenant_id, user_id, session_id, scope)
                            FOR UPDATE SKIP LOCKED)
RETURNING connection_id, told, is_greeted;

-- name: settle_socket
UPDATE websocket_connection
   SET told = greatest(told, %(told)s), is_greeted = %(is_greeted)s, posting = NULL, posting_until = NULL,
       closed_at = coalesce(closed_at, CASE WHEN %(is_closed)s THEN clock_timestamp() END)
 WHERE connection_id = %(connection_id)s AND posting = %(until)s;

-- name: forget_expired
DELETE FROM websocket_connection
 WHERE expires_at <= clock_timestamp() OR closed_at <= clock_timestamp() - make_interval(secs => %(resume_s)s);
