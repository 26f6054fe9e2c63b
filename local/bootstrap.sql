-- The roles and the database of the platform, made as RDS and the first migration make them: the superuser creates the
-- owner, which is none itself, and the owner creates the other two. Only their passwords are added here.

-- name: create_owner
-- DDL takes no parameters, so set_role_password passes the passwords as session settings.
DO $$
DECLARE
    existing name;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'artiway_owner') THEN
        CREATE ROLE artiway_owner;
    END IF;
    EXECUTE format('ALTER ROLE artiway_owner LOGIN CREATEROLE PASSWORD %L', current_setting('bootstrap.artiway_owner'));
    -- An earlier release let the superuser create them. PostgreSQL gives the creator of a role this membership.
    FOR existing IN SELECT rolname FROM pg_roles WHERE rolname IN ('artiway_app', 'artiway_service') LOOP
        IF NOT pg_has_role('artiway_owner', existing, 'MEMBER WITH ADMIN OPTION') THEN
            EXECUTE format('GRANT %I TO artiway_owner WITH ADMIN TRUE, INHERIT FALSE, SET FALSE', existing);
        END IF;
    END LOOP;
    -- An account with CREATEROLE alone may create a database only for a role of which it is a member.
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT artiway_owner TO %I', current_user);
    END IF;
END
$$;

-- name: create_roles
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['artiway_app', 'artiway_service'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I', wanted);
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN PASSWORD %L', wanted, current_setting('bootstrap.' || wanted));
    END LOOP;
END
$$;

-- name: set_role_password
SELECT set_config('bootstrap.' || %(role)s, %(password)s, false);

-- name: database_exists
SELECT EXISTS (SELECT FROM pg_database WHERE datname = 'artiway');

-- name: create_database
CREATE DATABASE artiway OWNER artiway_owner;
