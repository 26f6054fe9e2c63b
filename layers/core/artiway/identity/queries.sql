-- name: insert_tenant
INSERT INTO tenant (tenant_id, name, tier, status, is_platform, weight, concurrency, queue_depth, rate_per_second, burst,
                    user_concurrency, job_concurrency, job_per_minute, job_period_s)
VALUES (%(tenant_id)s, %(name)s, %(tier)s, %(status)s, %(is_platform)s, %(weight)s, %(concurrency)s, %(queue_depth)s,
        %(rate_per_second)s, %(burst)s, %(user_concurrency)s, %(job_concurrency)s, %(job_per_minute)s, %(job_period_s)s);

-- name: insert_user
INSERT INTO app_user (tenant_id, user_id, email, phone, password_hash, display_name)
VALUES (%(tenant_id)s, %(user_id)s, %(email)s, %(phone)s, %(password_hash)s, %(display_name)s);

-- name: insert_roles
INSERT INTO user_role (tenant_id, user_id, role)
SELECT %(tenant_id)s, %(user_id)s, role FROM unnest(%(roles)s::text[]) AS role;

-- name: insert_session
-- No row if the user or the tenant was closed during the login. The row lock makes logins of one user wait for each
-- other, so that two of them cannot both pass the limit of sessions.
INSERT INTO session (tenant_id, session_id, user_id, created_at, expires_at)
SELECT tenant_id, %(session_id)s, user_id, %(created_at)s, %(expires_at)s
  FROM app_user JOIN tenant USING (tenant_id)
 WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
   AND app_user.status = 'ACTIVE' AND tenant.status = 'ACTIVE'
   FOR NO KEY UPDATE OF app_user FOR SHARE OF tenant;

-- name: end_oldest_sessions
UPDATE session SET revoked_at = now(), revoked_reason = 'limit'
 WHERE tenant_id = %(tenant_id)s
   AND session_id IN (SELECT session_id FROM session
                       WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND session_id <> %(session_id)s
                         AND revoked_at IS NULL AND expires_at > %(created_at)s
                       ORDER BY created_at DESC, session_id DESC
                      OFFSET %(most)s - 1)
RETURNING session_id;

-- name: insert_refresh_token
INSERT INTO refresh_token (token_hash, tenant_id, session_id, issued_at, expires_at)
VALUES (%(token_hash)s, %(tenant_id)s, %(session_id)s, %(created_at)s, %(token_expires_at)s);

-- name: insert_login
-- A place is new if the user logged in before, and never from there. An unknown location is no place.
INSERT INTO login_event (tenant_id, login_id, user_id, method, address, location, logged_at, is_new_place)
SELECT %(tenant_id)s, %(login_id)s, %(user_id)s, %(method)s, %(address)s, %(location)s, %(logged_at)s,
       %(is_place_known)s AND coalesce(bool_and(before.location <> %(location)s), false)
  FROM login_event AS before
 WHERE before.tenant_id = %(tenant_id)s AND before.user_id = %(user_id)s
   AND before.logged_at > %(logged_at)s::timestamptz - make_interval(months => %(months)s)
RETURNING is_new_place;

-- name: account_by_login
SELECT tenant_id, user_id, password_hash,
       app_user.status = 'ACTIVE' AS is_open, tenant.status <> 'ACTIVE' AS is_suspended,
       ARRAY(SELECT permission FROM user_permission AS held
              WHERE held.tenant_id = app_user.tenant_id AND held.user_id = app_user.user_id
              ORDER BY permission) AS permissions
  FROM app_user JOIN tenant USING (tenant_id)
 WHERE email = %(login)s OR phone = %(login)s;

-- name: account_by_user
SELECT tenant_id, user_id, password_hash,
       app_user.status = 'ACTIVE' AS is_open, tenant.status <> 'ACTIVE' AS is_suspended,
       ARRAY(SELECT permission FROM user_permission AS held
              WHERE held.tenant_id = app_user.tenant_id AND held.user_id = app_user.user_id
              ORDER BY permission) AS permissions
  FROM app_user JOIN tenant USING (tenant_id)
 WHERE user_id = %(user_id)s;

-- name: lock_platform
SELECT pg_advisory_xact_lock(hashtextextended('platform tenant', 0));

-- name: platform_tenant
SELECT tenant_id FROM tenant WHERE is_platform;

-- name: permissions_of_built_in
SELECT permissions FROM built_in_role WHERE name = %(name)s;

-- name: set_password_hash
UPDATE app_user SET password_hash = %(password_hash)s, updated_at = now() WHERE user_id = %(user_id)s;

-- name: lock_wechat
-- One first login of a person at a time: by the unionid, which apps share, else by the openid.
SELECT pg_advisory_xact_lock(hashtextextended('wechat:' || %(person)s, 0));

-- name: wechat_identity
SELECT user_id, unionid FROM wechat_identity WHERE appid = %(appid)s AND openid = %(openid)s;

-- name: wechat_by_unionid
SELECT tenant_id, user_id FROM wechat_identity WHERE unionid = %(unionid)s ORDER BY created_at LIMIT 1;

-- name: insert_wechat
INSERT INTO wechat_identity (appid, openid, unionid, tenant_id, user_id)
VALUES (%(appid)s, %(openid)s, %(unionid)s, %(tenant_id)s, %(user_id)s);

-- name: learn_unionid
UPDATE wechat_identity SET unionid = %(unionid)s
 WHERE appid = %(appid)s AND openid = %(openid)s AND unionid IS NULL;

-- name: refresh_state
SELECT token.tenant_id, token.session_id, session.user_id, token.used_at, token.expires_at,
       session.expires_at AS session_expires_at,
       session.revoked_at IS NOT NULL AS is_revoked,
       app_user.status = 'ACTIVE' AS is_open, tenant.status <> 'ACTIVE' AS is_suspended,
       successor.token_hash IS NOT NULL AS is_successor_known,
       successor.used_at IS NOT NULL AS is_successor_used,
       ARRAY(SELECT permission FROM user_permission AS held
              WHERE held.tenant_id = session.tenant_id AND held.user_id = session.user_id
              ORDER BY permission) AS permissions
  FROM refresh_token AS token
  JOIN session USING (tenant_id, session_id)
  JOIN app_user USING (tenant_id, user_id)
  JOIN tenant USING (tenant_id)
  LEFT JOIN refresh_token AS successor ON successor.token_hash = %(successor_hash)s
 WHERE token.token_hash = %(token_hash)s;

-- name: lock_session
SELECT session_id
  FROM session JOIN app_user USING (tenant_id, user_id)
 WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s
   AND revoked_at IS NULL AND app_user.status = 'ACTIVE'
   FOR UPDATE OF session;

-- name: use_refresh_token
UPDATE refresh_token SET used_at = %(now)s WHERE token_hash = %(token_hash)s AND used_at IS NULL;

-- name: revoke_session
UPDATE session SET revoked_at = now(), revoked_reason = %(reason)s
 WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND revoked_at IS NULL;

-- name: revoke_sessions_of_user
UPDATE session SET revoked_at = now(), revoked_reason = %(reason)s
 WHERE user_id = %(user_id)s AND revoked_at IS NULL;

-- name: count_attempt
-- Changes no row while the subject is blocked. Check and count are one statement, so that concurrent attempts cannot all
-- pass before the first is counted.
INSERT INTO login_failure AS known (subject, failures, last_at, blocked_until)
VALUES (%(subject)s, 1, clock_timestamp(), '-infinity')
ON CONFLICT (subject) DO UPDATE
   SET failures = CASE WHEN known.last_at < clock_timestamp() - %(window)s THEN 1 ELSE known.failures + 1 END,
       last_at = clock_timestamp(),
       blocked_until = CASE
           WHEN known.last_at < clock_timestamp() - %(window)s OR known.failures + 1 < %(free)s THEN '-infinity'
           ELSE clock_timestamp()
                + least(%(longest)s, %(first)s * power(2, least(known.failures + 1 - %(free)s, 20)))
       END
 WHERE known.blocked_until <= clock_timestamp();

-- name: wait_of
SELECT ceil(extract(epoch FROM blocked_until - clock_timestamp()))::integer AS wait_s
  FROM login_failure WHERE subject = %(subject)s;

-- name: forgive_account
DELETE FROM login_failure WHERE subject = %(subject)s;

-- name: forgive_address
UPDATE login_failure SET failures = greatest(failures - 1, 0), blocked_until = '-infinity'
 WHERE subject = %(subject)s;
