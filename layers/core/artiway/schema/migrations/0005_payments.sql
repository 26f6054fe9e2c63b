-- orders, refunds, reconciliation

CREATE TABLE pay_order (
    tenant_id       uuid NOT NULL,
    order_id        uuid NOT NULL,
    user_id         uuid NOT NULL,
    -- WeChat's name for the order: unique for the merchant for ever, also after it is closed.
    out_trade_no    text NOT NULL UNIQUE CHECK (out_trade_no ~ '^[0-9A-Za-z_|*-]{6,32}$'),
    mchid           text NOT NULL,
    appid           text NOT NULL,
    package_id      text NOT NULL,
    amount_fen      integer NOT NULL CHECK (amount_fen > 0),
    points          bigint NOT NULL CHECK (points > 0),
    channel         text NOT NULL CHECK (channel IN ('native', 'jsapi', 'h5')),
    openid          text,
    status          text NOT NULL CHECK (status IN ('CREATED', 'PAYING', 'PAID', 'COMPLETED', 'CLOSED', 'REFUNDING', 'REFUNDED')),
    close_reason    text CHECK (close_reason IN ('REQUESTED', 'EXPIRED', 'NEVER_PREPAID', 'REFUSED', 'CLOSED_THERE')),
    flag            text CHECK (flag IN ('MISMATCH', 'OVERPAID', 'PAID_LATE')),
    -- Sent again byte for byte: WeChat refuses the same number with any other parameter.
    prepay_body     text NOT NULL,
    prepay_code     text,
    prepay_until    timestamptz,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    transaction_id  text,
    paid_at         timestamptz,
    completed_at    timestamptz,
    payer_openid    text,
    payer_total_fen integer,
    -- Asked for or done, so that all refunds together never pass what was paid.
    refunded_fen    integer NOT NULL DEFAULT 0 CHECK (refunded_fen BETWEEN 0 AND amount_fen),
    refunded_points bigint NOT NULL DEFAULT 0 CHECK (refunded_points BETWEEN 0 AND points),
    idempotency_key text,
    request_hash    text,
    next_query_at   timestamptz NOT NULL,
    query_tries     integer NOT NULL DEFAULT 0,
    polled_at       timestamptz,
    PRIMARY KEY (tenant_id, order_id),
    UNIQUE (tenant_id, idempotency_key),
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user,
    CHECK ((status IN ('PAID', 'COMPLETED', 'REFUNDING', 'REFUNDED')) = (transaction_id IS NOT NULL)),
    CHECK ((transaction_id IS NULL) = (paid_at IS NULL)),
    CHECK ((status = 'CLOSED') = (close_reason IS NOT NULL))
);
CREATE INDEX pay_order_of_user ON pay_order (tenant_id, user_id, order_id);
CREATE INDEX pay_order_due ON pay_order (next_query_at) WHERE status IN ('CREATED', 'PAYING');
CREATE INDEX pay_order_paid ON pay_order (paid_at) WHERE paid_at IS NOT NULL;

-- Every payment that WeChat told us of, and what became of it. Without a tenant: a payment for no order of ours.
CREATE TABLE pay_transaction (
    mchid          text NOT NULL,
    transaction_id text NOT NULL,
    tenant_id      uuid,
    order_id       uuid,
    out_trade_no   text NOT NULL,
    outcome        text NOT NULL CHECK (outcome IN ('CREDITED', 'OVERPAID', 'MISMATCH', 'ORPHAN', 'FOREIGN')),
    amount_fen     integer,
    currency       text,
    paid_at        timestamptz,
    source         text NOT NULL CHECK (source IN ('callback', 'query', 'bill')),
    seen_at        timestamptz NOT NULL,
    PRIMARY KEY (mchid, transaction_id),
    FOREIGN KEY (tenant_id, order_id) REFERENCES pay_order
);
-- One payment is credited for an order; a second one is money to give back.
CREATE UNIQUE INDEX pay_transaction_credited ON pay_transaction (tenant_id, order_id) WHERE outcome = 'CREDITED';

CREATE TABLE pay_refund (
    tenant_id       uuid NOT NULL,
    refund_id       uuid NOT NULL,
    order_id        uuid NOT NULL,
    -- The idempotency key at WeChat: asking again with the same number pays back once.
    out_refund_no   text NOT NULL UNIQUE,
    amount_fen      integer NOT NULL CHECK (amount_fen > 0),
    points          bigint NOT NULL CHECK (points >= 0),
    points_taken    bigint NOT NULL DEFAULT 0 CHECK (points_taken BETWEEN 0 AND points),
    is_debited      boolean NOT NULL,
    -- Begun at the merchant's own console rather than here.
    is_external     boolean NOT NULL DEFAULT false,
    reason          text NOT NULL,
    request_body    text NOT NULL,
    status          text NOT NULL CHECK (status IN ('REQUESTED', 'PROCESSING', 'ABNORMAL', 'SUCCESS', 'CLOSED')),
    wechat_id       text,
    started_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    idempotency_key text,
    request_hash    text,
    next_query_at   timestamptz NOT NULL,
    query_tries     integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, refund_id),
    UNIQUE (tenant_id, idempotency_key),
    FOREIGN KEY (tenant_id, order_id) REFERENCES pay_order,
    CHECK ((status IN ('SUCCESS', 'CLOSED')) = (ended_at IS NOT NULL))
);
CREATE INDEX pay_refund_of_order ON pay_refund (tenant_id, order_id);
CREATE INDEX pay_refund_due ON pay_refund (next_query_at) WHERE status IN ('REQUESTED', 'PROCESSING');
CREATE INDEX pay_refund_started ON pay_refund (started_at);

-- What a person must know of, said once. Written with the change that it tells of, published after the commit.
CREATE TABLE pay_alert (
    alert_key  text PRIMARY KEY,
    tenant_id  uuid,
    kind       text NOT NULL,
    details    jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    sent_at    timestamptz
);
CREATE INDEX pay_alert_unsent ON pay_alert (created_at) WHERE sent_at IS NULL;

-- The daily comparison with WeChat's bill, and what it found.
CREATE TABLE bill_day (
    day         date PRIMARY KEY,
    -- COMPARED until what can be repaired is repaired: a run that dies in between is taken up by the next.
    status      text NOT NULL CHECK (status IN ('WAITING', 'FAILED', 'COMPARED', 'DONE')),
    tries       integer NOT NULL,
    payments    integer,
    refunds     integer,
    total_fen   bigint,
    differences integer,
    last_error  text,
    updated_at  timestamptz NOT NULL
);
CREATE TABLE bill_difference (
    day          date NOT NULL REFERENCES bill_day,
    kind         text NOT NULL CHECK (kind IN ('MISSING_HERE', 'MISSING_THERE', 'UNPAID_HERE', 'AMOUNT', 'REFUND_MISSING_HERE',
                                               'REFUND_MISSING_THERE', 'REFUND_AMOUNT')),
    reference    text NOT NULL,
    tenant_id    uuid,
    order_id     uuid,
    ours_fen     bigint,
    theirs_fen   bigint,
    resolution   text NOT NULL CHECK (resolution IN ('OPEN', 'REPAIRED')),
    found_at     timestamptz NOT NULL,
    resolved_at  timestamptz,
    PRIMARY KEY (day, kind, reference)
);

ALTER TABLE pay_order ENABLE ROW LEVEL SECURITY;
ALTER TABLE pay_order FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON pay_order TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON pay_order TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON pay_order TO artiway_app;
GRANT UPDATE (status, close_reason, flag, prepay_code, prepay_until, transaction_id, paid_at, completed_at, payer_openid,
              payer_total_fen, refunded_fen, refunded_points, idempotency_key, polled_at) ON pay_order TO artiway_app;
GRANT SELECT ON pay_order TO artiway_service;
GRANT UPDATE (next_query_at, query_tries) ON pay_order TO artiway_service;

ALTER TABLE pay_transaction ENABLE ROW LEVEL SECURITY;
ALTER TABLE pay_transaction FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON pay_transaction TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON pay_transaction TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON pay_transaction TO artiway_app, artiway_service;
GRANT UPDATE (outcome, amount_fen, currency, source) ON pay_transaction TO artiway_app;

ALTER TABLE pay_refund ENABLE ROW LEVEL SECURITY;
ALTER TABLE pay_refund FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON pay_refund TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON pay_refund TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON pay_refund TO artiway_app;
GRANT UPDATE (status, points_taken, is_debited, wechat_id, started_at, ended_at, idempotency_key)
    ON pay_refund TO artiway_app;
GRANT SELECT ON pay_refund TO artiway_service;
GRANT UPDATE (next_query_at, query_tries) ON pay_refund TO artiway_service;

ALTER TABLE pay_alert ENABLE ROW LEVEL SECURITY;
ALTER TABLE pay_alert FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON pay_alert FOR INSERT TO artiway_app WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON pay_alert TO artiway_service USING (true) WITH CHECK (true);
GRANT INSERT ON pay_alert TO artiway_app;
GRANT SELECT, INSERT ON pay_alert TO artiway_service;
GRANT UPDATE (sent_at) ON pay_alert TO artiway_service;

ALTER TABLE bill_day ENABLE ROW LEVEL SECURITY;
ALTER TABLE bill_day FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON bill_day TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON bill_day TO artiway_service;

ALTER TABLE bill_difference ENABLE ROW LEVEL SECURITY;
ALTER TABLE bill_difference FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON bill_difference TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON bill_difference TO artiway_service;
GRANT UPDATE (resolution, resolved_at) ON bill_difference TO artiway_service;
