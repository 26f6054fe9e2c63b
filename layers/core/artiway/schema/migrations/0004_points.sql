-- points accounts, ledger, holds

CREATE TABLE points_account (
    tenant_id      uuid NOT NULL,
    user_id        uuid NOT NULL,
    balance        bigint NOT NULL CHECK (balance >= 0),
    frozen         bigint NOT NULL CHECK (frozen >= 0),
    version        bigint NOT NULL CHECK (version > 0),
    -- When the next lot of granted points lapses; null where nothing can lapse, which is the usual case.
    next_expiry_at timestamptz,
    PRIMARY KEY (tenant_id, user_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user
);
CREATE INDEX points_account_expiry ON points_account (next_expiry_at) WHERE next_expiry_at IS NOT NULL;

CREATE TABLE points_hold (
    tenant_id    uuid NOT NULL,
    hold_id      uuid NOT NULL,
    user_id      uuid NOT NULL,
    amount       bigint NOT NULL CHECK (amount >= 0),
    charged      bigint NOT NULL DEFAULT 0 CHECK (charged BETWEEN 0 AND amount),
    -- How much of the amount came out of lots that lapse.
    lot_points   bigint NOT NULL DEFAULT 0 CHECK (lot_points BETWEEN 0 AND amount),
    status       text NOT NULL CHECK (status IN ('HELD', 'CONFIRMED', 'CANCELLED')),
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    PRIMARY KEY (tenant_id, hold_id),
    -- The user, not the account: a cancel may come before the first points.
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user,
    CHECK ((status = 'HELD') = (ended_at IS NULL)),
    CHECK (status = 'CONFIRMED' OR charged = 0)
);
CREATE INDEX points_hold_overdue ON points_hold (expires_at) WHERE status = 'HELD';

-- Each entry is one version of its account. The two foreign keys below chain every version to the one before it and the
-- account to its newest, so that balance and frozen are the sums of all deltas and no code can make them anything else.
CREATE TABLE points_ledger (
    tenant_id       uuid NOT NULL,
    user_id         uuid NOT NULL,
    version         bigint NOT NULL CHECK (version > 0),
    entry_id        uuid NOT NULL,
    kind            text NOT NULL CHECK (kind IN ('RECHARGE', 'GIFT', 'FREEZE', 'CONFIRM', 'CANCEL', 'REFUND',
                                                  'TRANSFER_IN', 'TRANSFER_OUT', 'ADJUST')),
    balance_delta   bigint NOT NULL,
    frozen_delta    bigint NOT NULL,
    balance         bigint NOT NULL CHECK (balance >= 0),
    frozen          bigint NOT NULL CHECK (frozen >= 0),
    hold_id         uuid,
    reference       text NOT NULL CHECK (length(reference) <= 200),
    idempotency_key text NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 300),
    created_at      timestamptz NOT NULL,
    version_before  bigint GENERATED ALWAYS AS (nullif(version - 1, 0)) STORED,
    balance_before  bigint GENERATED ALWAYS AS (balance - balance_delta) STORED,
    frozen_before   bigint GENERATED ALWAYS AS (frozen - frozen_delta) STORED,
    PRIMARY KEY (tenant_id, user_id, version),
    UNIQUE (tenant_id, user_id, version, balance, frozen),
    UNIQUE (tenant_id, idempotency_key),
    CHECK (version > 1 OR (balance_delta = balance AND frozen_delta = frozen)),
    CHECK ((kind IN ('FREEZE', 'CONFIRM', 'CANCEL')) = (hold_id IS NOT NULL)),
    CHECK (CASE kind
               WHEN 'FREEZE' THEN balance_delta < 0 AND frozen_delta = -balance_delta
               WHEN 'CONFIRM' THEN balance_delta >= 0 AND frozen_delta <= -balance_delta
               WHEN 'CANCEL' THEN balance_delta > 0 AND frozen_delta = -balance_delta
               WHEN 'TRANSFER_OUT' THEN balance_delta < 0 AND frozen_delta = 0
               WHEN 'REFUND' THEN balance_delta <> 0 AND frozen_delta = 0
               WHEN 'ADJUST' THEN balance_delta <> 0 AND frozen_delta = 0
               ELSE balance_delta > 0 AND frozen_delta = 0
           END),
    FOREIGN KEY (tenant_id, user_id, version_before, balance_before, frozen_before)
        REFERENCES points_ledger (tenant_id, user_id, version, balance, frozen)
);
ALTER TABLE points_account ADD FOREIGN KEY (tenant_id, user_id, version, balance, frozen)
    REFERENCES points_ledger (tenant_id, user_id, version, balance, frozen);
-- A hold ends once, whoever settles it and however many do.
CREATE UNIQUE INDEX points_ledger_hold_end ON points_ledger (tenant_id, hold_id) WHERE kind IN ('CONFIRM', 'CANCEL');

-- Granted points that lapse. What has no date lives in the balance alone.
CREATE TABLE points_lot (
    tenant_id  uuid NOT NULL,
    lot_id     uuid NOT NULL,
    user_id    uuid NOT NULL,
    granted    bigint NOT NULL CHECK (granted > 0),
    remaining  bigint NOT NULL CHECK (remaining BETWEEN 0 AND granted),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, lot_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES points_account
);
CREATE INDEX points_lot_live ON points_lot (tenant_id, user_id, expires_at, lot_id) WHERE remaining > 0;

-- What a hold took out of which lot, so that a release puts it back there.
CREATE TABLE points_hold_lot (
    tenant_id uuid NOT NULL,
    hold_id   uuid NOT NULL,
    lot_id    uuid NOT NULL,
    amount    bigint NOT NULL CHECK (amount > 0),
    PRIMARY KEY (tenant_id, hold_id, lot_id),
    FOREIGN KEY (tenant_id, hold_id) REFERENCES points_hold,
    FOREIGN KEY (tenant_id, lot_id) REFERENCES points_lot
);

-- A campaign gives to a user once.
CREATE TABLE points_campaign_grant (
    tenant_id  uuid NOT NULL,
    campaign   text NOT NULL CHECK (length(campaign) BETWEEN 1 AND 100),
    user_id    uuid NOT NULL,
    granted_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, campaign, user_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES points_account
);

ALTER TABLE points_account ENABLE ROW LEVEL SECURITY;
ALTER TABLE points_account FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON points_account TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY read_all ON points_account FOR SELECT TO artiway_service USING (true);
GRANT SELECT, INSERT ON points_account TO artiway_app;
GRANT UPDATE (balance, frozen, version, next_expiry_at) ON points_account TO artiway_app;
GRANT SELECT ON points_account TO artiway_service;

ALTER TABLE points_hold ENABLE ROW LEVEL SECURITY;
ALTER TABLE points_hold FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON points_hold TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY read_all ON points_hold FOR SELECT TO artiway_service USING (true);
GRANT SELECT, INSERT ON points_hold TO artiway_app;
GRANT UPDATE (charged, lot_points, status, ended_at) ON points_hold TO artiway_app;
GRANT SELECT ON points_hold TO artiway_service;

-- Append-only: nobody who serves a request may change or remove an entry.
ALTER TABLE points_ledger ENABLE ROW LEVEL SECURITY;
ALTER TABLE points_ledger FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON points_ledger TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY read_all ON points_ledger FOR SELECT TO artiway_service USING (true);
GRANT SELECT, INSERT ON points_ledger TO artiway_app;
GRANT SELECT ON points_ledger TO artiway_service;

ALTER TABLE points_lot ENABLE ROW LEVEL SECURITY;
ALTER TABLE points_lot FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON points_lot TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY read_all ON points_lot FOR SELECT TO artiway_service USING (true);
GRANT SELECT, INSERT ON points_lot TO artiway_app;
GRANT UPDATE (remaining) ON points_lot TO artiway_app;
GRANT SELECT ON points_lot TO artiway_service;

ALTER TABLE points_hold_lot ENABLE ROW LEVEL SECURITY;
ALTER TABLE points_hold_lot FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON points_hold_lot TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY read_all ON points_hold_lot FOR SELECT TO artiway_service USING (true);
GRANT SELECT, INSERT ON points_hold_lot TO artiway_app;
GRANT SELECT ON points_hold_lot TO artiway_service;

ALTER TABLE points_campaign_grant ENABLE ROW LEVEL SECURITY;
ALTER TABLE points_campaign_grant FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON points_campaign_grant TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
GRANT SELECT, INSERT ON points_campaign_grant TO artiway_app;

-- The two statements of every task are functions, since PL/pgSQL plans them once per connection. A prepared statement
-- would do so, too, and pin the session in RDS Proxy. Each is one statement: check and change cannot be torn apart.

CREATE FUNCTION points_place_hold(
    the_hold uuid, the_user uuid, points bigint, the_entry uuid, the_reference text, the_key text, at timestamptz, until timestamptz
) RETURNS TABLE (next_expiry_at timestamptz)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH account AS (
        UPDATE points_account
           SET balance = balance - points, frozen = frozen + points, version = version + 1
         WHERE user_id = the_user AND balance >= points AND (next_expiry_at IS NULL OR next_expiry_at > at)
        RETURNING tenant_id, user_id, balance, frozen, version, next_expiry_at
    ), hold AS (
        INSERT INTO points_hold (tenant_id, hold_id, user_id, amount, status, created_at, expires_at)
        SELECT tenant_id, the_hold, user_id, points, 'HELD', at, until FROM account
    ), entry AS (
        INSERT INTO points_ledger (tenant_id, user_id, version, entry_id, kind, balance_delta, frozen_delta, balance, frozen,
                                   hold_id, reference, idempotency_key, created_at)
        SELECT tenant_id, user_id, version, the_entry, 'FREEZE', -points, points, balance, frozen,
               the_hold, the_reference, the_key, at
          FROM account
    )
    SELECT next_expiry_at FROM account;
END
$$;

-- Of two that race, the second waits for the account and then finds too little frozen, or its entry breaks the unique
-- index and all of it is undone.
CREATE FUNCTION points_end_hold(
    the_hold uuid, ended_as text, charge bigint, the_entry uuid, the_kind text, the_reference text, the_key text, at timestamptz
) RETURNS TABLE (
    hold_id uuid, user_id uuid, amount bigint, charged bigint, status text, expires_at timestamptz, lot_points bigint
)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH held AS (
        SELECT tenant_id, hold_id, user_id, amount, lot_points, expires_at
          FROM points_hold
         WHERE hold_id = the_hold AND status = 'HELD' AND amount >= charge
    ), account AS (
        UPDATE points_account AS account
           SET balance = account.balance + held.amount - charge,
               frozen = account.frozen - held.amount,
               version = account.version + 1
          FROM held
         WHERE account.tenant_id = held.tenant_id AND account.user_id = held.user_id AND account.frozen >= held.amount
        RETURNING account.balance, account.frozen, account.version
    ), ended AS (
        UPDATE points_hold AS hold
           SET status = ended_as, charged = charge, ended_at = at
          FROM held, account
         WHERE hold.tenant_id = held.tenant_id AND hold.hold_id = held.hold_id
    ), entry AS (
        INSERT INTO points_ledger (tenant_id, user_id, version, entry_id, kind, balance_delta, frozen_delta, balance, frozen,
                                   hold_id, reference, idempotency_key, created_at)
        SELECT held.tenant_id, held.user_id, account.version, the_entry, the_kind, held.amount - charge, -held.amount,
               account.balance, account.frozen, held.hold_id, the_reference, the_key, at
          FROM held, account
    )
    SELECT held.hold_id, held.user_id, held.amount, charge, ended_as, held.expires_at, held.lot_points FROM held, account;
END
$$;

REVOKE EXECUTE ON FUNCTION points_place_hold, points_end_hold FROM PUBLIC;
GRANT EXECUTE ON FUNCTION points_place_hold, points_end_hold TO artiway_app;
