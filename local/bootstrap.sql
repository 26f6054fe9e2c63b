-- What Aurora brings on AWS and a fresh server lacks: the roles and the database of the platform.

-- name: make_roles
-- DDL takes no parameters, so the passwords arrive as settings of the session.
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['artiway_owner', 'artiway_app', 'artiway_service'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I', wanted);
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN PASSWORD %L', wanted, current_setting('bootstrap.' || wanted));
    END LOOP;
    ALTER ROLE artiway_owner CREATEROLE;
    -- A mere CREATEROLE account may give a database only to a role that it belongs to.
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT artiway_owner TO %I', current_user);
    END IF;
END
$$;

-- name: pass_password
SELECT set_config('bootstrap.' || %(role)s, %(password)s, false);

-- name: is_database_there
SELECT EXISTS (SELECT FROM pg_database WHERE datname = 'artiway');

-- name: make_database
CREATE DATABASE artiway OWNER artiway_owner;
