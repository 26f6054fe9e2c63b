-- Texts that models write: the requests, the clocks by which tenants share a lane, and the free allowance of users.
-- A guard is a row that runs with a lease: it is counted, never stored, so that a crash cannot leave one behind.

CREATE TABLE generation (
    tenant_id           uuid NOT NULL,
    generation_id       uuid NOT NULL,
    user_id             uuid NOT NULL,
    service             text NOT NULL CHECK (length(service) BETWEEN 1 AND 64),
    lane                text NOT NULL CHECK (length(lane) BETWEEN 1 AND 64),
    is_free             boolean NOT NULL,
    status              text NOT NULL DEFAULT 'QUEUED' CHECK (status IN ('QUEUED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED')),
    -- The fence: it rises with each claim.
    attempt             integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    failures            integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    input               jsonb NOT NULL,
    params              jsonb NOT NULL DEFAULT '{}',
    max_tokens          integer NOT NULL CHECK (max_tokens BETWEEN 1 AND 1000000),
    -- Estimated before the provider counts, for the hold and the clock of the tenant.
    input_tokens        integer NOT NULL CHECK (input_tokens BETWEEN 0 AND 10000000),
    -- Points per 1,000 tokens when the request came; the hold, and what was charged of it.
    input_price         integer NOT NULL CHECK (input_price >= 0),
    output_price        integer NOT NULL CHECK (output_price >= 0),
    hold_id             uuid,
    price_points        bigint NOT NULL CHECK (price_points >= 0),
    charged_points      bigint NOT NULL DEFAULT 0 CHECK (charged_points BETWEEN 0 AND price_points),
    allowance_day       date,
    -- Not claimed before this time: after a failure or a refusal of the provider.
    not_before          timestamptz NOT NULL DEFAULT clock_timestamp(),
    message_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    worker_id           text NOT NULL DEFAULT '' CHECK (length(worker_id) <= 200),
    lease_until         timestamptz,
    provider            text NOT NULL DEFAULT '' CHECK (length(provider) <= 100),
    model_id            text NOT NULL DEFAULT '' CHECK (length(model_id) <= 200),
    -- Of the running attempt a snapshot, then the whole text.
    text                text NOT NULL DEFAULT '',
    result              jsonb,
    used_input          integer CHECK (used_input >= 0),
    used_output         integer CHECK (used_output >= 0),
    usage_source        text CHECK (usage_source IN ('provider', 'estimated')),
    finish_reason       text CHECK (length(finish_reason) <= 64),
    error               jsonb,
    trace_id            text NOT NULL DEFAULT '' CHECK (length(trace_id) <= 64),
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at          timestamptz,
    first_token_at      timestamptz,
    ended_at            timestamptz,
    cancel_requested_at timestamptz,
    PRIMARY KEY (tenant_id, generation_id),
    UNIQUE (generation_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user,
    CHECK ((status IN ('COMPLETED', 'FAILED', 'CANCELLED')) = (ended_at IS NOT NULL)),
    CHECK ((status = 'RUNNING') = (lease_until IS NOT NULL)),
    CHECK (is_free = (price_points = 0) AND is_free = (hold_id IS NULL) AND is_free = (allowance_day IS NOT NULL)),
    CHECK ((used_input IS NULL) = (usage_source IS NULL) AND (used_output IS NULL) = (usage_source IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX generation_waiting ON generation (lane, tenant_id, created_at, generation_id) WHERE status = 'QUEUED';
CREATE INDEX generation_running ON generation (lease_until) WHERE status = 'RUNNING';
CREATE INDEX generation_live ON generation (tenant_id) WHERE status IN ('QUEUED', 'RUNNING');
CREATE INDEX generation_of_user ON generation (tenant_id, user_id, generation_id);
CREATE INDEX generation_ended ON generation (ended_at) WHERE ended_at IS NOT NULL;

ALTER TABLE generation ENABLE ROW LEVEL SECURITY;
ALTER TABLE generation FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON generation TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON generation TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON generation TO artiway_app;
GRANT UPDATE (status, attempt, failures, hold_id, price_points, charged_points, allowance_day, is_free, not_before, message_at, lease_until,
              provider, model_id, text, result, used_input, used_output, usage_source, finish_reason, error, started_at, first_token_at,
              ended_at, cancel_requested_at) ON generation TO artiway_app;
GRANT SELECT, DELETE ON generation TO artiway_service;
GRANT UPDATE (status, attempt, message_at, worker_id, lease_until, provider, model_id, text, started_at, first_token_at) ON generation
    TO artiway_service;

-- Start-time fair queueing in each lane. A tag is virtual time: tokens of work, divided by the tenant's weight. No row is
-- a lane at zero.
CREATE TABLE generation_clock (
    lane      text PRIMARY KEY CHECK (length(lane) BETWEEN 1 AND 64),
    start_tag bigint NOT NULL DEFAULT 0 CHECK (start_tag >= 0)
);
ALTER TABLE generation_clock ENABLE ROW LEVEL SECURITY;
ALTER TABLE generation_clock FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON generation_clock TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON generation_clock TO artiway_service;
GRANT UPDATE (start_tag) ON generation_clock TO artiway_service;

-- The tag at which the tenant's last text ends. No row is a tenant that has had none.
CREATE TABLE generation_share (
    tenant_id  uuid NOT NULL REFERENCES tenant,
    lane       text NOT NULL CHECK (length(lane) BETWEEN 1 AND 64),
    finish_tag bigint NOT NULL CHECK (finish_tag >= 0),
    PRIMARY KEY (tenant_id, lane)
);
ALTER TABLE generation_share ENABLE ROW LEVEL SECURITY;
ALTER TABLE generation_share FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON generation_share TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON generation_share TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON generation_share TO artiway_app;
GRANT UPDATE (finish_tag) ON generation_share TO artiway_app;
GRANT SELECT, INSERT ON generation_share TO artiway_service;
GRANT UPDATE (finish_tag) ON generation_share TO artiway_service;

-- Tokens that a user has used for nothing on a day (UTC); running texts count with their worst case.
CREATE TABLE generation_allowance (
    tenant_id uuid NOT NULL,
    user_id   uuid NOT NULL,
    day       date NOT NULL,
    tokens    bigint NOT NULL CHECK (tokens >= 0),
    PRIMARY KEY (tenant_id, user_id, day),
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user
);
CREATE INDEX generation_allowance_age ON generation_allowance (day);
ALTER TABLE generation_allowance ENABLE ROW LEVEL SECURITY;
ALTER TABLE generation_allowance FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON generation_allowance TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON generation_allowance TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON generation_allowance TO artiway_app;
GRANT UPDATE (tokens) ON generation_allowance TO artiway_app;
GRANT SELECT, DELETE ON generation_allowance TO artiway_service;

-- The models that the workers of a lane would ask for a service, in their order. Workers write it, since only they can
-- read the operator's document, which has keys.
CREATE TABLE text_route (
    lane     text NOT NULL CHECK (length(lane) BETWEEN 1 AND 64),
    service  text NOT NULL CHECK (length(service) BETWEEN 1 AND 64),
    position smallint NOT NULL CHECK (position BETWEEN 0 AND 100),
    model    text NOT NULL CHECK (length(model) BETWEEN 1 AND 200),
    PRIMARY KEY (lane, service, position)
);
ALTER TABLE text_route ENABLE ROW LEVEL SECURITY;
ALTER TABLE text_route FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON text_route TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, DELETE ON text_route TO artiway_service;
GRANT UPDATE (model) ON text_route TO artiway_service;

-- A model of texts is `provider/model`.
ALTER TABLE model_setting DROP CONSTRAINT model_setting_model_check;
ALTER TABLE model_setting ADD CONSTRAINT model_setting_model_check CHECK (length(model) BETWEEN 1 AND 200);
