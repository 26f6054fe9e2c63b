-- Inside one tenant: the row policies filter by tenant.

-- name: me
SELECT user_id, tenant_id, tier, email,
       ARRAY(SELECT role FROM user_role AS held WHERE held.user_id = app_user.user_id ORDER BY role) AS roles
  FROM app_user JOIN tenant USING (tenant_id)
 WHERE user_id = %(user_id)s;

-- name: users
SELECT user_id, email, phone, status, created_at, concurrency,
       ARRAY(SELECT role FROM user_role AS held WHERE held.user_id = app_user.user_id ORDER BY role) AS roles,
       ARRAY(SELECT permission FROM user_permission AS held WHERE held.user_id = app_user.user_id) AS permissions
  FROM app_user
 WHERE (%(user_id)s::uuid IS NULL OR user_id = %(user_id)s)
   AND (%(after)s::uuid IS NULL OR user_id > %(after)s)
 ORDER BY user_id
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
SELECT tenant_id, name, tenant.tier, policy.concurrency, tenant.user_concurrency
  FROM tenant JOIN tenant_policy AS policy USING (tenant_id);

-- name: lock_organisation
SELECT name, user_concurrency FROM tenant FOR NO KEY UPDATE;

-- name: update_organisation
UPDATE tenant SET name = %(name)s, user_concurrency = %(user_concurrency)s, updated_at = clock_timestamp();

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
