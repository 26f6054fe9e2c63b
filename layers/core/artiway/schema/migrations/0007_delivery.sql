-- What tenants upload and what workers made, until its time is over; who is told about it, and whether they were.

CREATE TABLE upload (
    tenant_id      uuid NOT NULL,
    input_id       uuid NOT NULL,
    user_id        uuid NOT NULL,
    key            text NOT NULL,
    content_type   text NOT NULL CHECK (content_type IN ('image/png', 'image/jpeg', 'image/webp')),
    bytes          bigint NOT NULL CHECK (bytes > 0),
    -- Known once the object was looked at, which is when it is first used.
    width          integer CHECK (width > 0),
    height         integer CHECK (height > 0),
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at     timestamptz NOT NULL,
    -- 1 only after S3 has deleted it.
    cleanup_status smallint NOT NULL DEFAULT 0 CHECK (cleanup_status IN (0, 1)),
    PRIMARY KEY (tenant_id, input_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user
);
CREATE INDEX upload_expiry ON upload (expires_at) WHERE cleanup_status = 0;

ALTER TABLE upload ENABLE ROW LEVEL SECURITY;
ALTER TABLE upload FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON upload TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON upload TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON upload TO artiway_app;
GRANT UPDATE (width, height, expires_at) ON upload TO artiway_app;
GRANT SELECT ON upload TO artiway_service;
GRANT UPDATE (cleanup_status) ON upload TO artiway_service;

CREATE TABLE artefact (
    tenant_id      uuid NOT NULL,
    artefact_id    uuid NOT NULL,
    task_id        uuid NOT NULL,
    node_id        uuid NOT NULL,
    name           text NOT NULL,
    key            text NOT NULL,
    content_type   text NOT NULL,
    width          integer NOT NULL,
    height         integer NOT NULL,
    bytes          bigint NOT NULL,
    is_result      boolean NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at     timestamptz NOT NULL,
    cleanup_status smallint NOT NULL DEFAULT 0 CHECK (cleanup_status IN (0, 1)),
    PRIMARY KEY (tenant_id, artefact_id),
    UNIQUE (key),
    FOREIGN KEY (tenant_id, task_id) REFERENCES task,
    FOREIGN KEY (tenant_id, node_id) REFERENCES task_node
);
CREATE INDEX artefact_of_task ON artefact (tenant_id, task_id);
CREATE INDEX artefact_expiry ON artefact (expires_at) WHERE cleanup_status = 0;

ALTER TABLE artefact ENABLE ROW LEVEL SECURITY;
ALTER TABLE artefact FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON artefact TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON artefact TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON artefact TO artiway_app;
GRANT SELECT ON artefact TO artiway_service;
GRANT UPDATE (cleanup_status) ON artefact TO artiway_service;

CREATE TABLE webhook (
    tenant_id  uuid NOT NULL,
    webhook_id uuid NOT NULL,
    url        text NOT NULL CHECK (length(url) BETWEEN 10 AND 2000),
    -- Signs each delivery. Shown once, to whom made the webhook.
    secret     text NOT NULL,
    -- Made because a task named the address. Deliveries go to it for such tasks alone.
    is_implied boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at timestamptz,
    PRIMARY KEY (tenant_id, webhook_id)
);
CREATE UNIQUE INDEX webhook_url ON webhook (tenant_id, url) WHERE deleted_at IS NULL;

ALTER TABLE webhook ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON webhook TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY readable ON webhook FOR SELECT TO artiway_service USING (true);
GRANT SELECT, INSERT ON webhook TO artiway_app;
GRANT UPDATE (secret, is_implied, deleted_at) ON webhook TO artiway_app;
GRANT SELECT ON webhook TO artiway_service;

CREATE TABLE webhook_delivery (
    tenant_id    uuid NOT NULL,
    delivery_id  uuid NOT NULL,
    webhook_id   uuid NOT NULL,
    event        text NOT NULL,
    body         text NOT NULL,
    status       text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'DELIVERED', 'FAILED')),
    attempts     integer NOT NULL DEFAULT 0,
    next_try_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    answer_code  integer,
    answer       text CHECK (length(answer) <= 1000),
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    delivered_at timestamptz,
    PRIMARY KEY (tenant_id, delivery_id),
    FOREIGN KEY (tenant_id, webhook_id) REFERENCES webhook
);
CREATE INDEX webhook_delivery_of_webhook ON webhook_delivery (tenant_id, webhook_id, delivery_id);
CREATE INDEX webhook_delivery_due ON webhook_delivery (next_try_at) WHERE status = 'PENDING';

ALTER TABLE webhook_delivery ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_delivery FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON webhook_delivery TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY readable ON webhook_delivery FOR SELECT TO artiway_service USING (true);
GRANT SELECT, INSERT ON webhook_delivery TO artiway_app;
GRANT UPDATE (status, attempts, next_try_at, answer_code, answer, delivered_at) ON webhook_delivery TO artiway_app;
GRANT SELECT ON webhook_delivery TO artiway_service;
