-- name: remember_connection
INSERT INTO websocket_connection (connection_id, tenant_id, user_id, expires_at)
VALUES (%(connection_id)s, %(tenant_id)s, %(user_id)s, %(expires_at)s)
ON CONFLICT (connection_id) DO NOTHING;

-- name: forget_connection
DELETE FROM websocket_connection WHERE connection_id = %(connection_id)s;

-- name: connections_of_user
SELECT connection_id
  FROM websocket_connection
 WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND expires_at > clock_timestamp()
 ORDER BY connected_at
 LIMIT 100;

-- name: forget_expired
DELETE FROM websocket_connection WHERE expires_at <= clock_timestamp();
