-- Inside one tenant: the row policies filter by tenant.

-- name: session_access
SELECT session.user_id, session.revoked_at IS NULL AND app_user.status = 'ACTIVE' AS is_open,
       policy.status <> 'ACTIVE' AS is_suspended,
       policy.rate_per_second, policy.burst,
       ARRAY(SELECT permission FROM user_permission AS held WHERE held.user_id = session.user_id) AS permissions
  FROM session
  JOIN app_user USING (tenant_id, user_id)
  JOIN tenant_policy AS policy USING (tenant_id)
 WHERE session_id = %(session_id)s;

-- name: key_access
-- A key has at most the permissions of its user now and of the key that made it. least() ignores NULL.
SELECT key.user_id, app_user.status = 'ACTIVE' AS is_open, policy.status <> 'ACTIVE' AS is_suspended,
       floor(extract(epoch FROM least(key.expires_at, parent.expires_at)))::bigint AS expires_at,
       policy.rate_per_second, policy.burst, key.is_signed OR coalesce(parent.is_signed, false) AS is_signed,
       encode(key.secret_hash, 'hex') AS secret_hash,
       ARRAY(SELECT permission FROM user_permission AS held WHERE held.user_id = key.user_id) AS permissions,
       key.permissions AS key_permissions, coalesce(parent.permissions, key.permissions) AS parent_permissions
  FROM api_key AS key
  JOIN app_user USING (tenant_id, user_id)
  JOIN tenant_policy AS policy USING (tenant_id)
  LEFT JOIN api_key AS parent ON parent.tenant_id = key.tenant_id AND parent.key_id = key.parent_key_id
 WHERE key.key_id = %(key_id)s;

-- name: spend_nonce
INSERT INTO api_key_nonce (tenant_id, key_id, nonce, expires_at)
SELECT tenant_id, key_id, %(nonce)s, %(expires_at)s FROM api_key WHERE key_id = %(key_id)s
ON CONFLICT DO NOTHING;

-- name: forget_nonces
-- A few at each use, so that no single request deletes many rows.
DELETE FROM api_key_nonce
 WHERE (tenant_id, key_id, nonce) IN (SELECT tenant_id, key_id, nonce FROM api_key_nonce
                                       WHERE key_id = %(key_id)s AND expires_at < %(now)s LIMIT 20);
