-- As `artiway_service`, across tenants.

-- name: insert_reset
INSERT INTO password_reset (reset_id, login, language, created_at, expires_at)
VALUES (%(reset_id)s, %(login)s, %(language)s, %(created_at)s, %(expires_at)s);

-- name: use_reset
-- Changes no row if the link was used, replaced or has expired. Of two requests at once the second changes none.
UPDATE password_reset AS reset SET ended_at = %(now)s
  FROM app_user AS person JOIN tenant USING (tenant_id)
 WHERE reset.token_hash = %(token_hash)s AND reset.ended_at IS NULL AND reset.expires_at > %(now)s
   AND person.user_id = reset.user_id AND person.status = 'ACTIVE' AND tenant.status = 'ACTIVE'
RETURNING person.tenant_id, person.user_id;

-- name: end_resets
UPDATE password_reset SET ended_at = %(now)s WHERE user_id = %(user_id)s AND ended_at IS NULL;

-- name: tenant_of_user
SELECT tenant_id FROM app_user WHERE user_id = %(user_id)s FOR NO KEY UPDATE;

-- name: end_sessions
UPDATE session SET revoked_at = now(), revoked_reason = 'password'
 WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND revoked_at IS NULL
   AND (%(kept_session)s::uuid IS NULL OR session_id <> %(kept_session)s)
RETURNING session_id;
