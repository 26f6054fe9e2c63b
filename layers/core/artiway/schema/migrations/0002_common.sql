-- Answers that are given again to a repeated request, and the log of who did what.

CREATE TABLE idempotency_key (
    tenant_id       uuid NOT NULL,
    idempotency_key text NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    request_hash    text NOT NULL CHECK (request_hash <> ''),
    status          smallint NOT NULL CHECK (status BETWEEN 100 AND 599),
    body            text NOT NULL CHECK (octet_length(body) <= 1048576),
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, idempotency_key)
);
CREATE INDEX idempotency_key_age ON idempotency_key (created_at);

ALTER TABLE idempotency_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency_key FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON idempotency_key TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON idempotency_key TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON idempotency_key TO artiway_app;
GRANT SELECT, DELETE ON idempotency_key TO artiway_service;

-- Append-only: no role may change a row, and a policy lets only what is older than 180 days be deleted.
CREATE TABLE audit_log (
    audit_id  uuid PRIMARY KEY,
    tenant_id uuid,  -- null for what concerns the platform and no tenant; the application never sees those
    actor_id  uuid,  -- null for the platform itself
    action    text NOT NULL CHECK (action <> '' AND length(action) <= 100),
    target    text NOT NULL CHECK (length(target) <= 200),
    details   jsonb NOT NULL DEFAULT '{}' CHECK (octet_length(details::text) <= 32768),
    trace_id  text NOT NULL DEFAULT '',
    at        timestamptz NOT NULL DEFAULT clock_timestamp()  -- the entries of one transaction keep their order
);
CREATE INDEX audit_log_of_tenant ON audit_log (tenant_id, at DESC, audit_id DESC);
CREATE INDEX audit_log_by_time ON audit_log (at DESC, audit_id DESC);
CREATE INDEX audit_log_of_actor ON audit_log (actor_id, at DESC, audit_id DESC) WHERE actor_id IS NOT NULL;
CREATE INDEX audit_log_of_target ON audit_log (target, at DESC, audit_id DESC);

ALTER TABLE audit_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_log FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON audit_log TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON audit_log FOR SELECT TO artiway_service USING (true);
CREATE POLICY any_row ON audit_log FOR INSERT TO artiway_service WITH CHECK (true);
CREATE POLICY old_rows ON audit_log FOR DELETE TO artiway_service USING (at < now() - interval '180 days');
GRANT SELECT, INSERT ON audit_log TO artiway_app;
GRANT SELECT, INSERT, DELETE ON audit_log TO artiway_service;
