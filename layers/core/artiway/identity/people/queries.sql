-- Inside one tenant: the row policies filter by tenant.

-- name: me
-- A login from a new place is shown for a week, until the user has seen it.
SELECT person.user_id, person.tenant_id, tenant.tier, person.email, person.phone, person.display_name, person.language,
       person.email_notices, tenant.name AS tenant_name, policy.artefact_days, tenant.low_balance_points,
       coalesce(account.balance, 0) AS balance, coalesce(account.frozen, 0) AS frozen,
       EXISTS (SELECT FROM points_ledger WHERE idempotency_key = 'trial') AS had_trial,
       place.logged_at AS new_place_at, place.location AS new_place_location,
       ARRAY(SELECT role FROM user_role AS held WHERE held.user_id = person.user_id ORDER BY role) AS roles
  FROM app_user AS person
  JOIN tenant USING (tenant_id)
  JOIN tenant_policy AS policy USING (tenant_id)
  LEFT JOIN points_account AS account USING (tenant_id, user_id)
  LEFT JOIN LATERAL (SELECT logged_at, location
                       FROM login_event AS login
                      WHERE login.tenant_id = person.tenant_id AND login.user_id = person.user_id AND login.is_new_place
                        AND login.logged_at > statement_timestamp() - interval '7 days'
                        AND (person.logins_seen_at IS NULL OR login.logged_at > person.logins_seen_at)
                      ORDER BY logged_at DESC
                      LIMIT 1) AS place ON true
 WHERE person.user_id = %(user_id)s;

-- name: lock_profile
SELECT display_name, language, email_notices FROM app_user WHERE user_id = %(user_id)s FOR NO KEY UPDATE;

-- name: update_profile
UPDATE app_user
   SET display_name = %(display_name)s, language = %(language)s, email_notices = %(email_notices)s, updated_at = now()
 WHERE user_id = %(user_id)s;

-- name: mark_logins_seen
UPDATE app_user SET logins_seen_at = clock_timestamp() WHERE user_id = %(user_id)s;

-- name: is_user
SELECT FROM app_user WHERE user_id = %(user_id)s;

-- name: logins
SELECT login_id, method, address, location, logged_at, is_new_place
  FROM login_event
 WHERE tenant_id = current_tenant() AND user_id = %(user_id)s
   AND (%(before)s::uuid IS NULL
        OR (logged_at, login_id) < (SELECT logged_at, login_id FROM login_event WHERE login_id = %(before)s))
 ORDER BY logged_at DESC, login_id DESC
 LIMIT %(limit)s;

-- name: users
SELECT person.user_id, email, phone, status, created_at, concurrency, display_name, coalesce(account.balance, 0) AS balance,
       (SELECT max(logged_at) FROM login_event AS login
         WHERE login.tenant_id = person.tenant_id AND login.user_id = person.user_id) AS last_login_at,
       ARRAY(SELECT role FROM user_role AS held WHERE held.user_id = person.user_id ORDER BY role) AS roles,
       ARRAY(SELECT permission FROM user_permission AS held WHERE held.user_id = person.user_id) AS permissions
  FROM app_user AS person LEFT JOIN points_account AS account USING (tenant_id, user_id)
 WHERE (%(user_id)s::uuid IS NULL OR person.user_id = %(user_id)s)
   AND (%(after)s::uuid IS NULL OR person.user_id > %(after)s)
 ORDER BY person.user_id
 LIMIT %(limit)s;

-- name: lock_people
-- Changes of permissions in one tenant run one at a time: otherwise the last two owners could remove each other.
SELECT pg_advisory_xact_lock(hashtextextended('people:' || current_tenant()::text, 0));

-- name: count_users
SELECT count(*) AS users FROM app_user;

-- name: set_user_status
UPDATE app_user SET status = %(status)s, updated_at = now() WHERE user_id = %(user_id)s;

-- name: set_user_concurrency
-- The scheduler reads the rows that were set lately.
UPDATE app_user
   SET concurrency = %(concurrency)s, concurrency_set_at = clock_timestamp(), updated_at = now()
 WHERE user_id = %(user_id)s;

-- name: organisation
SELECT tenant_id, name, tenant.tier, policy.concurrency, tenant.user_concurrency, tenant.low_balance_points
  FROM tenant JOIN tenant_policy AS policy USING (tenant_id);

-- name: lock_organisation
SELECT name, user_concurrency, low_balance_points FROM tenant FOR NO KEY UPDATE;

-- name: update_organisation
UPDATE tenant
   SET name = %(name)s, user_concurrency = %(user_concurrency)s, low_balance_points = %(low_balance_points)s,
       updated_at = clock_timestamp();

-- name: delete_roles
DELETE FROM user_role WHERE user_id = %(user_id)s;

-- name: active_owners
SELECT count(*) AS owners
  FROM user_role JOIN app_user USING (tenant_id, user_id)
 WHERE role = 'owner' AND app_user.status = 'ACTIVE';

-- name: roles
SELECT name, permissions, true AS is_built_in
  FROM built_in_role
 WHERE NOT is_platform OR (SELECT is_platform FROM tenant)
UNION ALL
SELECT name, permissions, false FROM tenant_role
 ORDER BY is_built_in DESC, name;

-- name: insert_role
INSERT INTO tenant_role (tenant_id, name, permissions) VALUES (%(tenant_id)s, %(name)s, %(permissions)s);

-- name: update_role
UPDATE tenant_role SET permissions = %(permissions)s WHERE name = %(name)s;

-- name: delete_role
DELETE FROM tenant_role WHERE name = %(name)s;

-- name: holders_of_role
SELECT count(*) AS holders FROM user_role WHERE role = %(name)s;
