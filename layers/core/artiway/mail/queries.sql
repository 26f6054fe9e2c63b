-- As `artiway_service`, across tenants.

-- name: reset
-- The account of a request that is still valid. Rows of closed accounts and suspended tenants get no mail.
SELECT person.user_id, person.email, coalesce(reset.language, person.language) AS language, person.email_notices,
       tenant.name AS tenant_name
  FROM password_reset AS reset
  JOIN app_user AS person ON person.email = reset.login OR person.phone = reset.login
  JOIN tenant USING (tenant_id)
 WHERE reset.reset_id = %(reset_id)s AND reset.ended_at IS NULL AND reset.expires_at > %(now)s
   AND person.email IS NOT NULL AND person.status = 'ACTIVE' AND tenant.status = 'ACTIVE'
   FOR UPDATE OF reset;

-- name: end_other_resets
UPDATE password_reset SET ended_at = %(now)s
 WHERE user_id = %(user_id)s AND reset_id <> %(reset_id)s AND ended_at IS NULL;

-- name: store_reset_token
UPDATE password_reset SET user_id = %(user_id)s, token_hash = %(token_hash)s WHERE reset_id = %(reset_id)s;

-- name: invitation
UPDATE invitation SET token_hash = %(token_hash)s
  FROM tenant, app_user AS inviter
 WHERE invitation.tenant_id = %(tenant_id)s AND invitation.invitation_id = %(invitation_id)s
   AND invitation.accepted_at IS NULL AND invitation.revoked_at IS NULL AND invitation.expires_at > %(now)s
   AND tenant.tenant_id = invitation.tenant_id AND tenant.status = 'ACTIVE'
   AND inviter.tenant_id = invitation.tenant_id AND inviter.user_id = invitation.invited_by
RETURNING invitation.email, coalesce(invitation.language, inviter.language) AS language, tenant.name AS tenant_name,
          coalesce(inviter.display_name, inviter.email, inviter.phone, tenant.name) AS inviter;

-- name: login
SELECT person.email, person.language, person.email_notices, login.address, login.location, login.logged_at
  FROM login_event AS login JOIN app_user AS person USING (tenant_id, user_id)
 WHERE login.tenant_id = %(tenant_id)s AND login.login_id = %(login_id)s AND person.email IS NOT NULL;

-- name: recipient
SELECT person.email, person.language, person.email_notices, tenant.name AS tenant_name, tenant.low_balance_points,
       coalesce(account.balance, 0) AS balance
  FROM app_user AS person
  JOIN tenant USING (tenant_id)
  LEFT JOIN points_account AS account USING (tenant_id, user_id)
 WHERE person.tenant_id = %(tenant_id)s AND person.user_id = %(user_id)s AND person.email IS NOT NULL
   AND person.status = 'ACTIVE';
