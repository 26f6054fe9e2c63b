-- name: insert_invitation
INSERT INTO invitation (tenant_id, invitation_id, email, roles, language, invited_by, created_at, sent_at, expires_at)
VALUES (current_tenant(), %(invitation_id)s, %(email)s, %(roles)s, %(language)s, %(invited_by)s, %(created_at)s, %(sent_at)s,
        %(expires_at)s);

-- name: invitations
SELECT invitation_id, invitation.email, roles, invitation.language, invited_by, inviter.email AS inviter_email,
       invitation.created_at, sent_at, expires_at, accepted_at, revoked_at, invitation.user_id
  FROM invitation JOIN app_user AS inviter ON inviter.user_id = invitation.invited_by
 WHERE (%(invitation_id)s::uuid IS NULL OR invitation_id = %(invitation_id)s)
   AND (%(before)s::uuid IS NULL OR invitation_id < %(before)s)
 ORDER BY invitation_id DESC
 LIMIT %(limit)s;

-- name: unanswered
SELECT invitation_id, expires_at FROM invitation WHERE email = %(email)s AND accepted_at IS NULL AND revoked_at IS NULL;

-- name: count_open
SELECT count(*) AS open FROM invitation WHERE accepted_at IS NULL AND revoked_at IS NULL AND expires_at > %(now)s;

-- name: is_taken
SELECT FROM app_user WHERE email = %(email)s;

-- name: send_again
-- The link that was sent before ends now; the function that sends the mail makes the next one.
UPDATE invitation SET token_hash = NULL, sent_at = %(now)s, expires_at = %(expires_at)s WHERE invitation_id = %(invitation_id)s;

-- name: revoke
UPDATE invitation SET revoked_at = %(now)s, token_hash = NULL WHERE invitation_id = %(invitation_id)s;

-- name: by_token
-- As `artiway_service`: a link names no tenant.
SELECT invitation.tenant_id, invitation_id, email, roles, expires_at, tenant.name AS tenant_name,
       ARRAY(SELECT permission
               FROM built_in_role AS known CROSS JOIN unnest(known.permissions) AS permission
              WHERE known.name = ANY (invitation.roles) AND (NOT known.is_platform OR tenant.is_platform)
              UNION
             SELECT permission
               FROM tenant_role AS known CROSS JOIN unnest(known.permissions) AS permission
              WHERE known.tenant_id = invitation.tenant_id AND known.name = ANY (invitation.roles)
              ORDER BY permission) AS permissions
  FROM invitation JOIN tenant USING (tenant_id)
 WHERE token_hash = %(token_hash)s AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > %(now)s
   AND tenant.status = 'ACTIVE';

-- name: lock_people_of
-- The lock of `lock_people`, in a transaction without a tenant.
SELECT pg_advisory_xact_lock(hashtextextended('people:' || %(tenant_id)s::uuid::text, 0));

-- name: count_users_of
SELECT count(*) AS users FROM app_user WHERE tenant_id = %(tenant_id)s;

-- name: accept
-- Changes no row if the link was used, sent again or revoked meanwhile.
UPDATE invitation SET accepted_at = %(now)s, user_id = %(user_id)s
 WHERE tenant_id = %(tenant_id)s AND invitation_id = %(invitation_id)s AND token_hash = %(token_hash)s
   AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > %(now)s;
