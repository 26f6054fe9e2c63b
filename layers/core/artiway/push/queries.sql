-- name: take_over
-- The socket of this session that closed last: its successor goes on where it stood. Taken once.
DELETE FROM websocket_connection
 WHERE connection_id = (SELECT connection_id
                          FROM websocket_connection
                         WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND session_id = %(session_id)s
                           AND closed_at > clock_timestamp() - make_interval(secs => %(resume_s)s)
                         ORDER BY closed_at DESC
                         LIMIT 1
                           FOR UPDATE SKIP LOCKED)
RETURNING told;

-- name: remember_connection
-- One user's outbox is written in the order of commits, so whatever is committed later has a higher number than all that
-- is visible now. A cursor from beyond that is not one of ours.
INSERT INTO websocket_connection (connection_id, tenant_id, user_id, session_id, expires_at, told)
SELECT %(connection_id)s, %(tenant_id)s, %(user_id)s, %(session_id)s, %(expires_at)s, least(%(after)s::bigint, coalesce(max(outbox_id), 0))
  FROM outbox
 WHERE destination = 'push' AND tenant_id = %(tenant_id)s AND aggregate = %(aggregate)s
ON CONFLICT (connection_id) DO NOTHING
RETURNING told;

-- name: close_connection
-- Kept for a while, for the one that comes in its place.
UPDATE websocket_connection SET closed_at = clock_timestamp(), posting = NULL, posting_until = NULL
 WHERE connection_id = ANY (%(connection_ids)s::text[]) AND closed_at IS NULL;

-- name: sockets_of_user
SELECT connection_id, told, is_greeted, posting IS NOT NULL AS is_busy,
       coalesce(posting_until <= clock_timestamp(), false) AS is_doubtful
  FROM websocket_connection
 WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND closed_at IS NULL AND expires_at > clock_timestamp()
   AND connected_at <= clock_timestamp() - make_interval(secs => %(settling_s)s)
 ORDER BY connected_at
 LIMIT 100;

-- name: news_of_user
SELECT outbox_id, body
  FROM outbox
 WHERE destination = 'push' AND tenant_id = %(tenant_id)s AND aggregate = %(aggregate)s AND outbox_id > %(after)s
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
-- claimed, or let go of by one who looks again.
UPDATE websocket_connection
   SET posting = %(until)s, posting_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
 WHERE connection_id IN (SELECT connection_id
                           FROM websocket_connection
                          WHERE connection_id = ANY (%(connection_ids)s::text[]) AND posting IS NULL AND closed_at IS NULL
                            AND told >= %(after)s AND (told < %(until)s OR NOT is_greeted)
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
