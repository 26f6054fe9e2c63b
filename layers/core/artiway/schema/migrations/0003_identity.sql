-- Tenants and what they may use, people and what they may do, sessions, API keys, and who logged in from where.

-- Reference data is a view of constants: no role can change it, a migration can.
CREATE VIEW tier_default WITH (security_invoker = true) AS
SELECT *
  FROM (VALUES
        ('enterprise'::text, 10, 50, 500, 'CRITICAL'::text, 100, 200, 180),
        ('vip',               5, 20, 100, 'HIGH',            50, 100,  30),
        ('standard',          2,  5,  30, 'NORMAL',          20,  40,  15),
        ('free',              1,  2,  10, 'LOW',              5,  10,   3)
       ) AS tier (tier, weight, concurrency, queue_depth, priority, rate_per_second, burst, artefact_days);

-- points.grant makes points out of nothing, tenant.manage and ops.* reach beyond a tenant: the platform's alone.
CREATE VIEW built_in_role WITH (security_invoker = true) AS
SELECT role.name, string_to_array(role.permissions, ' ') AS permissions, role.name = 'platform_admin' AS is_platform
  FROM (VALUES
        ('owner'::text, 'task.submit task.read task.cancel points.read points.transfer order.create order.refund job.write job.run job.ops user.manage'::text),
        ('admin',       'task.submit task.read task.cancel points.read points.transfer order.create job.write job.run job.ops user.manage'),
        ('operator',    'task.submit task.read task.cancel points.read job.write job.run job.ops'),
        ('member',      'task.submit task.read task.cancel points.read order.create'),
        ('viewer',      'task.read points.read'),
        ('platform_admin', 'task.submit task.read task.cancel points.read points.grant points.transfer order.create order.refund job.write job.run job.ops user.manage tenant.manage ops.read ops.write')
       ) AS role (name, permissions);
GRANT SELECT ON tier_default, built_in_role TO artiway_app, artiway_service;

CREATE TABLE tenant (
    tenant_id       uuid PRIMARY KEY,
    name            text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    tier            text NOT NULL DEFAULT 'free' CHECK (tier IN ('enterprise', 'vip', 'standard', 'free')),
    status          text NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'SUSPENDED')),
    is_platform     boolean NOT NULL DEFAULT false,
    -- Overrides; NULL is the tier's default.
    weight          integer CHECK (weight BETWEEN 1 AND 1000),
    concurrency     integer CHECK (concurrency BETWEEN 0 AND 100000),
    queue_depth     integer CHECK (queue_depth BETWEEN 0 AND 1000000),
    rate_per_second integer CHECK (rate_per_second BETWEEN 1 AND 100000),
    burst           integer CHECK (burst BETWEEN 1 AND 200000),
    artefact_days   integer CHECK (artefact_days BETWEEN 1 AND 180),
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now()
);
-- The platform's own people live in one tenant, and there is one such tenant.
CREATE UNIQUE INDEX tenant_platform ON tenant (is_platform) WHERE is_platform;

ALTER TABLE tenant ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON tenant TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON tenant TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON tenant TO artiway_app;
GRANT SELECT, INSERT ON tenant TO artiway_service;
GRANT UPDATE (name, tier, status, weight, concurrency, queue_depth, rate_per_second, burst, artefact_days, updated_at)
    ON tenant TO artiway_service;

-- What a tenant may use now. A rate without a burst of its own keeps the tiers' proportion of 1 to 2.
CREATE VIEW tenant_policy WITH (security_invoker = true) AS
SELECT tenant.tenant_id,
       tenant.tier,
       tenant.status,
       tier.priority,
       coalesce(tenant.weight, tier.weight) AS weight,
       coalesce(tenant.concurrency, tier.concurrency) AS concurrency,
       coalesce(tenant.queue_depth, tier.queue_depth) AS queue_depth,
       coalesce(tenant.rate_per_second, tier.rate_per_second) AS rate_per_second,
       coalesce(tenant.burst, 2 * tenant.rate_per_second, tier.burst) AS burst,
       coalesce(tenant.artefact_days, tier.artefact_days) AS artefact_days
  FROM tenant
  JOIN tier_default AS tier USING (tier);
GRANT SELECT ON tenant_policy TO artiway_app, artiway_service;

CREATE TABLE app_user (
    tenant_id     uuid NOT NULL REFERENCES tenant,
    user_id       uuid NOT NULL,
    email         text CHECK (email = lower(email) AND length(email) BETWEEN 3 AND 254),
    phone         text CHECK (phone ~ '^\+[0-9]{6,15}$'),
    password_hash text,
    status        text NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'DISABLED')),
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, user_id),
    CONSTRAINT app_user_id_key UNIQUE (user_id),
    -- A login names no tenant, so it must name one person on the whole platform.
    CONSTRAINT app_user_email_key UNIQUE (email),
    CONSTRAINT app_user_phone_key UNIQUE (phone)
);

ALTER TABLE app_user ENABLE ROW LEVEL SECURITY;
ALTER TABLE app_user FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON app_user TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON app_user TO artiway_service USING (true) WITH CHECK (true);
-- The application sets a password and never reads one.
GRANT SELECT (tenant_id, user_id, email, phone, status, created_at, updated_at) ON app_user TO artiway_app;
GRANT INSERT ON app_user TO artiway_app, artiway_service;
GRANT UPDATE (status, updated_at) ON app_user TO artiway_app;
GRANT SELECT ON app_user TO artiway_service;
GRANT UPDATE (password_hash, status, updated_at) ON app_user TO artiway_service;

CREATE TABLE tenant_role (
    tenant_id   uuid NOT NULL REFERENCES tenant,
    name        text NOT NULL CHECK (name ~ '^[a-z][a-z0-9_-]{1,39}$'),
    permissions text[] NOT NULL CHECK (cardinality(permissions) <= 64),
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name)
);

ALTER TABLE tenant_role ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant_role FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON tenant_role TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY readable ON tenant_role FOR SELECT TO artiway_service USING (true);
GRANT SELECT, INSERT, DELETE ON tenant_role TO artiway_app;
-- The name is never changed; the right to is what a row lock asks for.
GRANT UPDATE (permissions) ON tenant_role TO artiway_app;
GRANT SELECT ON tenant_role TO artiway_service;

-- Role names are built-in ones or the tenant's own; one that names nothing grants nothing.
CREATE TABLE user_role (
    tenant_id uuid NOT NULL,
    user_id   uuid NOT NULL,
    role      text NOT NULL,
    PRIMARY KEY (tenant_id, user_id, role),
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user ON DELETE CASCADE
);
CREATE INDEX user_role_by_role ON user_role (tenant_id, role);

ALTER TABLE user_role ENABLE ROW LEVEL SECURITY;
ALTER TABLE user_role FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON user_role TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON user_role TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, DELETE ON user_role TO artiway_app, artiway_service;

-- What each person may do now. The platform's role counts in the platform's tenant alone.
CREATE VIEW user_permission WITH (security_invoker = true) AS
SELECT held.tenant_id, held.user_id, permission
  FROM user_role AS held
  JOIN tenant USING (tenant_id)
  JOIN built_in_role AS known ON known.name = held.role AND (NOT known.is_platform OR tenant.is_platform)
 CROSS JOIN unnest(known.permissions) AS permission
UNION
SELECT held.tenant_id, held.user_id, permission
  FROM user_role AS held
  JOIN tenant_role AS known ON known.tenant_id = held.tenant_id AND known.name = held.role
 CROSS JOIN unnest(known.permissions) AS permission;
GRANT SELECT ON user_permission TO artiway_app, artiway_service;

-- A person at WeChat is an openid in one app; the unionid says which openids are the same person.
CREATE TABLE wechat_identity (
    appid      text NOT NULL CHECK (length(appid) BETWEEN 1 AND 64),
    openid     text NOT NULL CHECK (length(openid) BETWEEN 1 AND 128),
    unionid    text CHECK (length(unionid) BETWEEN 1 AND 128),
    tenant_id  uuid NOT NULL,
    user_id    uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (appid, openid),
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user ON DELETE CASCADE
);
CREATE INDEX wechat_identity_by_unionid ON wechat_identity (unionid) WHERE unionid IS NOT NULL;
CREATE INDEX wechat_identity_of_user ON wechat_identity (tenant_id, user_id);

ALTER TABLE wechat_identity ENABLE ROW LEVEL SECURITY;
ALTER TABLE wechat_identity FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON wechat_identity TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON wechat_identity TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON wechat_identity TO artiway_app;
GRANT SELECT, INSERT ON wechat_identity TO artiway_service;
GRANT UPDATE (unionid) ON wechat_identity TO artiway_service;

-- A session is a family of refresh tokens: a line of successors that lives and dies as one.
CREATE TABLE session (
    tenant_id      uuid NOT NULL,
    session_id     uuid NOT NULL,
    user_id        uuid NOT NULL,
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    revoked_at     timestamptz,
    revoked_reason text CHECK (revoked_reason IN ('logout', 'reuse', 'disabled', 'password')),
    PRIMARY KEY (tenant_id, session_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user ON DELETE CASCADE,
    CHECK ((revoked_at IS NULL) = (revoked_reason IS NULL))
);
CREATE INDEX session_of_user ON session (tenant_id, user_id) WHERE revoked_at IS NULL;
CREATE INDEX session_expiry ON session (expires_at);

ALTER TABLE session ENABLE ROW LEVEL SECURITY;
ALTER TABLE session FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON session TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON session TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON session TO artiway_app;
GRANT UPDATE (revoked_at, revoked_reason) ON session TO artiway_app, artiway_service;
GRANT SELECT, INSERT, DELETE ON session TO artiway_service;

CREATE TABLE refresh_token (
    token_hash bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    tenant_id  uuid NOT NULL,
    session_id uuid NOT NULL,
    issued_at  timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    FOREIGN KEY (tenant_id, session_id) REFERENCES session ON DELETE CASCADE
);
-- One live token per session: two branches of one family cannot be stored.
CREATE UNIQUE INDEX refresh_token_live ON refresh_token (tenant_id, session_id) WHERE used_at IS NULL;
CREATE INDEX refresh_token_of_session ON refresh_token (tenant_id, session_id);

ALTER TABLE refresh_token ENABLE ROW LEVEL SECURITY;
ALTER TABLE refresh_token FORCE ROW LEVEL SECURITY;
-- The application has no business with refresh tokens: no policy, no grant.
CREATE POLICY all_rows ON refresh_token TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, DELETE ON refresh_token TO artiway_service;
GRANT UPDATE (used_at) ON refresh_token TO artiway_service;

CREATE TABLE api_key (
    tenant_id   uuid NOT NULL,
    key_id      uuid NOT NULL,
    user_id     uuid NOT NULL,
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    permissions text[] NOT NULL CHECK (cardinality(permissions) <= 64),
    secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    is_signed   boolean NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz,
    PRIMARY KEY (tenant_id, key_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user ON DELETE CASCADE
);
CREATE INDEX api_key_of_user ON api_key (tenant_id, user_id, key_id);

ALTER TABLE api_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_key FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON api_key TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
GRANT SELECT, INSERT, DELETE ON api_key TO artiway_app;

-- A signed request's nonce, kept for as long as its timestamp could still be accepted.
CREATE TABLE api_key_nonce (
    tenant_id  uuid NOT NULL,
    key_id     uuid NOT NULL,
    nonce      text NOT NULL CHECK (length(nonce) BETWEEN 8 AND 128),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, key_id, nonce),
    FOREIGN KEY (tenant_id, key_id) REFERENCES api_key ON DELETE CASCADE
);
CREATE INDEX api_key_nonce_expiry ON api_key_nonce (tenant_id, key_id, expires_at);

ALTER TABLE api_key_nonce ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_key_nonce FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON api_key_nonce TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
GRANT SELECT, INSERT, DELETE ON api_key_nonce TO artiway_app;

-- Append-only: who came in, how, from where.
CREATE TABLE login_event (
    tenant_id  uuid NOT NULL,
    login_id   uuid NOT NULL,
    user_id    uuid NOT NULL,
    method     text NOT NULL CHECK (method IN ('register', 'password', 'wechat_mini', 'wechat_web')),
    address    text NOT NULL CHECK (length(address) <= 64),
    location   text NOT NULL CHECK (length(location) <= 200),
    logged_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, login_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user ON DELETE CASCADE
);
CREATE INDEX login_event_age ON login_event (logged_at);

ALTER TABLE login_event ENABLE ROW LEVEL SECURITY;
ALTER TABLE login_event FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON login_event FOR SELECT TO artiway_app USING (tenant_id = current_tenant());
CREATE POLICY all_rows ON login_event TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON login_event TO artiway_app;
GRANT SELECT, INSERT, DELETE ON login_event TO artiway_service;

-- Failed logins by account and by address. No tenant: most of what is tried here names nobody.
CREATE TABLE login_failure (
    subject       bytea PRIMARY KEY CHECK (octet_length(subject) = 32),
    failures      integer NOT NULL CHECK (failures >= 0),
    last_at       timestamptz NOT NULL,
    blocked_until timestamptz NOT NULL
);
CREATE INDEX login_failure_age ON login_failure (last_at);

ALTER TABLE login_failure ENABLE ROW LEVEL SECURITY;
ALTER TABLE login_failure FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON login_failure TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON login_failure TO artiway_service;
