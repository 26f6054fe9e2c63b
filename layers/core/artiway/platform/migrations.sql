-- name: take_lock
-- Of two concurrent deployments the second waits, and then has nothing to do. Released when the session ends.
SELECT pg_try_advisory_lock(7265217);

-- name: sign_in_by_iam
-- PostgreSQL makes the owner a member of every role that it creates, and those may sign in with IAM alone. RDS follows
-- this membership too, so the first migration ends the owner's sign-in by password. The owner joins rds_iam before, so
-- that it signs in with IAM whatever fails later.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'rds_iam') AND NOT EXISTS (
        SELECT FROM pg_auth_members
         WHERE roleid = to_regrole('rds_iam') AND member = current_user::regrole AND (inherit_option OR set_option)
    ) THEN
        EXECUTE format('GRANT rds_iam TO %I', current_user);
    END IF;
END
$$;

-- name: create_history
CREATE TABLE IF NOT EXISTS schema_migration (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: history
SELECT version, checksum FROM schema_migration;

-- name: limit
SELECT set_config('lock_timeout', %(lock_ms)s, false), set_config('statement_timeout', %(statement_ms)s, false);

-- name: is_invalid_index
SELECT NOT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%(name)s);

-- name: remember
INSERT INTO schema_migration (version, name, checksum) VALUES (%(version)s, %(name)s, %(checksum)s);
