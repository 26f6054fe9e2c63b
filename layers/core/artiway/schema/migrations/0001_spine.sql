-- The roles of the platform, the tenant of a transaction, the outbox, and who listens on a WebSocket.

DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['artiway_app', 'artiway_service'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION', wanted);
        END IF;
        -- On Aurora the functions sign in with IAM instead of a password.
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'rds_iam') THEN
            EXECUTE format('GRANT rds_iam TO %I', wanted);
        END IF;
    END LOOP;
END
$$;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO artiway_app, artiway_service;

-- Without nullif a connection that once had a tenant would raise 22P02 here instead of showing nothing.
CREATE FUNCTION current_tenant() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT nullif(current_setting('app.tenant_id', true), '')::uuid $$;

CREATE TABLE outbox (
    outbox_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id   uuid,
    aggregate   text NOT NULL CHECK (aggregate <> ''),
    destination text NOT NULL CHECK (destination <> ''),
    body        text NOT NULL CHECK (octet_length(body) <= 262144),
    delay_s     smallint NOT NULL DEFAULT 0 CHECK (delay_s BETWEEN 0 AND 900),
    trace_id    text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT now(),
    sent_at     timestamptz
);
-- The relay reads these two alone, and both hold only what is unsent.
CREATE INDEX outbox_unsent_by_aggregate ON outbox (aggregate, outbox_id) WHERE sent_at IS NULL;
CREATE INDEX outbox_unsent_by_age ON outbox (created_at) WHERE sent_at IS NULL;
CREATE INDEX outbox_sent ON outbox (sent_at) WHERE sent_at IS NOT NULL;

ALTER TABLE outbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE outbox FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON outbox TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON outbox TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON outbox TO artiway_app, artiway_service;
GRANT UPDATE (sent_at) ON outbox TO artiway_app, artiway_service;
GRANT DELETE ON outbox TO artiway_service;

CREATE TABLE websocket_connection (
    connection_id text PRIMARY KEY CHECK (connection_id <> ''),
    tenant_id     uuid NOT NULL,
    user_id       uuid NOT NULL,
    connected_at  timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz NOT NULL
);
CREATE INDEX websocket_connection_of_user ON websocket_connection (tenant_id, user_id);
CREATE INDEX websocket_connection_expiry ON websocket_connection (expires_at);

ALTER TABLE websocket_connection ENABLE ROW LEVEL SECURITY;
ALTER TABLE websocket_connection FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON websocket_connection TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON websocket_connection TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON websocket_connection TO artiway_app;
GRANT SELECT, INSERT, DELETE ON websocket_connection TO artiway_service;
