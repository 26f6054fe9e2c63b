-- Inside one tenant: the row policies do the choosing.

-- name: session_access
SELECT session.user_id, session.revoked_at IS NULL AND app_user.status = 'ACTIVE' AND policy.status = 'ACTIVE' AS is_open,
       policy.rate_per_second, policy.burst,
       ARRAY(SELECT permission FROM user_permission AS held WHERE held.user_id = session.user_id) AS permissions
  FROM session
  JOIN app_user USING (tenant_id, user_id)
  JOIN tenant_policy AS policy USING (tenant_id)
 WHERE session_id = %(session_id)s;

-- name: key_access
-- A key never may more than the person who made it may now.
SELECT key.user_id, app_user.status = 'ACTIVE' AND policy.status = 'ACTIVE' AS is_open,
       floor(extract(epoch FROM key.expires_at))::bigint AS expires_at,
       policy.rate_per_second, policy.burst, key.is_signed,
       encode(key.secret_hash, 'hex') AS secret_hash,
       ARRAY(SELECT permission FROM user_permission AS held
              WHERE held.user_id = key.user_id AND permission = ANY(key.permissions)) AS permissions
  FROM api_key AS key
  JOIN app_user USING (tenant_id, user_id)
  JOIN tenant_policy AS policy USING (tenant_id)
 WHERE key_id = %(key_id)s;

-- name: spend_nonce
INSERT INTO api_key_nonce (tenant_id, key_id, nonce, expires_at)
SELECT tenant_id, key_id, %(nonce)s, %(expires_at)s FROM api_key WHERE key_id = %(key_id)s
ON CONFLICT DO NOTHING;

-- name: forget_nonces
-- A few at each use, so that a busy key never has to clear a mountain.
DELETE FROM api_key_nonce
 WHERE (tenant_id, key_id, nonce) IN (SELECT tenant_id, key_id, nonce FROM api_key_nonce
                                       WHERE key_id = %(key_id)s AND expires_at < %(now)s LIMIT 20);
