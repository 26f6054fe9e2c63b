-- Profiles, password resets, invitations, places of logins, deleted pictures and low balances.

ALTER TABLE app_user
    ADD COLUMN display_name   text CHECK (length(display_name) BETWEEN 1 AND 80),
    ADD COLUMN language       text CHECK (language IN ('zh', 'en')),
    ADD COLUMN email_notices  boolean NOT NULL DEFAULT true,
    -- Logins from new places up to this time were seen by the user.
    ADD COLUMN logins_seen_at timestamptz;
GRANT SELECT (display_name, language, email_notices, logins_seen_at) ON app_user TO artiway_app;
GRANT UPDATE (display_name, language, email_notices, logins_seen_at) ON app_user TO artiway_app;

-- No login of the same user in the last months came from this location.
ALTER TABLE login_event ADD COLUMN is_new_place boolean NOT NULL DEFAULT false;

-- A request to reset a password, made for any login, known or not: so the answer takes the same time. The function that sends the
-- mail searches the account, makes the token and stores its hash; only the mail has the token.
CREATE TABLE password_reset (
    reset_id   uuid PRIMARY KEY,
    login      text NOT NULL CHECK (length(login) BETWEEN 3 AND 254),
    language   text CHECK (language IN ('zh', 'en')),
    user_id    uuid,
    token_hash bytea UNIQUE CHECK (octet_length(token_hash) = 32),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    -- Used, or replaced by a later request of the same user.
    ended_at   timestamptz,
    CHECK ((token_hash IS NULL) = (user_id IS NULL))
);
CREATE INDEX password_reset_expiry ON password_reset (expires_at);
CREATE INDEX password_reset_open ON password_reset (user_id) WHERE ended_at IS NULL AND user_id IS NOT NULL;
ALTER TABLE password_reset ENABLE ROW LEVEL SECURITY;
ALTER TABLE password_reset FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON password_reset TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, DELETE ON password_reset TO artiway_service;
GRANT UPDATE (user_id, token_hash, ended_at) ON password_reset TO artiway_service;

-- An invitation is open until it is accepted or revoked, or its link expires. Its token is made when the mail is sent, too.
CREATE TABLE invitation (
    tenant_id     uuid NOT NULL REFERENCES tenant,
    invitation_id uuid NOT NULL,
    email         text NOT NULL CHECK (email = lower(email) AND length(email) BETWEEN 3 AND 254),
    roles         text[] NOT NULL CHECK (cardinality(roles) BETWEEN 1 AND 20),
    language      text CHECK (language IN ('zh', 'en')),
    invited_by    uuid NOT NULL,
    token_hash    bytea UNIQUE CHECK (octet_length(token_hash) = 32),
    created_at    timestamptz NOT NULL,
    sent_at       timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,
    accepted_at   timestamptz,
    revoked_at    timestamptz,
    user_id       uuid,
    PRIMARY KEY (tenant_id, invitation_id),
    FOREIGN KEY (tenant_id, invited_by) REFERENCES app_user,
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user,
    CHECK ((accepted_at IS NULL) = (user_id IS NULL)),
    CHECK (accepted_at IS NULL OR revoked_at IS NULL)
);
CREATE UNIQUE INDEX invitation_open ON invitation (tenant_id, email) WHERE accepted_at IS NULL AND revoked_at IS NULL;
CREATE INDEX invitation_expiry ON invitation (expires_at);
ALTER TABLE invitation ENABLE ROW LEVEL SECURITY;
ALTER TABLE invitation FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON invitation TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON invitation TO artiway_service USING (true) WITH CHECK (true);
-- The application never reads a hash of a token. A link that is sent again has none until its mail is made.
GRANT SELECT (tenant_id, invitation_id, email, roles, language, invited_by, created_at, sent_at, expires_at, accepted_at, revoked_at, user_id)
    ON invitation TO artiway_app;
GRANT INSERT ON invitation TO artiway_app;
GRANT UPDATE (roles, token_hash, sent_at, expires_at, revoked_at) ON invitation TO artiway_app;
GRANT SELECT, DELETE ON invitation TO artiway_service;
GRANT UPDATE (token_hash, accepted_at, user_id) ON invitation TO artiway_service;

-- A user deleted the picture. Its row stays; the object leaves with the next pass over expired objects.
ALTER TABLE artefact ADD COLUMN deleted_at timestamptz;
GRANT UPDATE (expires_at, deleted_at) ON artefact TO artiway_app;

-- Below this balance a user gets a notice. NULL: no notice.
ALTER TABLE tenant ADD COLUMN low_balance_points bigint CHECK (low_balance_points BETWEEN 0 AND 1000000000);
GRANT UPDATE (low_balance_points) ON tenant TO artiway_app;
CREATE INDEX tenant_low_balance ON tenant (tenant_id) WHERE low_balance_points IS NOT NULL;

-- When the notice about a low balance was sent; NULL again once the balance has risen.
ALTER TABLE points_account ADD COLUMN low_noticed_at timestamptz;
CREATE POLICY noticed ON points_account FOR UPDATE TO artiway_service USING (true) WITH CHECK (true);
GRANT UPDATE (low_noticed_at) ON points_account TO artiway_service;
