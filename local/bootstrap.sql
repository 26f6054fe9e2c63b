-- The roles and the database of the platform. On AWS the deployment of Aurora creates them.

-- name: create_roles
-- DDL takes no parameters, so set_role_password passes the passwords as session settings.
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
    -- An account with CREATEROLE alone may create a database only for a role of which it is a member.
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT artiway_owner TO %I', current_user);
    END IF;
END
$$;

-- name: set_role_password
SELECT set_config('bootstrap.' || %(role)s, %(password)s, false);

-- name: database_exists
SELECT EXISTS (SELECT FROM pg_database WHERE datname = 'artiway');

-- name: create_database
CREATE DATABASE artiway OWNER artiway_owner;
