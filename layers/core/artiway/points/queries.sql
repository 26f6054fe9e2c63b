-- Every statement that changes an account locks the account's row first and its other rows afterwards. So no two of them
-- deadlock, and later statements of the transaction have the account for themselves.

-- name: account
SELECT balance, frozen, version, next_expiry_at FROM points_account WHERE user_id = %(user_id)s;

-- name: lock_accounts
SELECT user_id FROM points_account WHERE user_id = ANY (%(user_ids)s) ORDER BY user_id FOR UPDATE;

-- name: place_hold
-- Hold. No row if the balance is too small or contains expired points.
SELECT next_expiry_at
  FROM points_place_hold(%(hold_id)s, %(user_id)s, %(amount)s, %(entry_id)s, %(reference)s, %(idempotency_key)s, %(now)s, %(expires_at)s);

-- name: end_hold
-- Confirm or cancel. No row if there is no such open hold.
SELECT hold_id, user_id, amount, charged, status, expires_at, lot_points
  FROM points_end_hold(%(hold_id)s, %(status)s, %(charged)s, %(entry_id)s, %(kind)s, %(reference)s, %(idempotency_key)s, %(now)s);

-- name: hold
SELECT hold_id, user_id, amount, charged, status, expires_at FROM points_hold WHERE hold_id = %(hold_id)s;

-- name: leave_tombstone
-- A cancel that arrived before its hold: the late hold conflicts with this row and fails.
INSERT INTO points_hold (tenant_id, hold_id, user_id, amount, status, created_at, expires_at, ended_at)
VALUES (current_tenant(), %(hold_id)s, %(user_id)s, 0, 'CANCELLED', %(now)s, %(now)s, %(now)s)
ON CONFLICT (tenant_id, hold_id) DO NOTHING;

-- name: credit
-- The first credit creates the account.
WITH account AS (
    INSERT INTO points_account AS account (tenant_id, user_id, balance, frozen, version)
    VALUES (current_tenant(), %(user_id)s, %(amount)s, 0, 1)
    ON CONFLICT (tenant_id, user_id) DO UPDATE SET balance = account.balance + excluded.balance, version = account.version + 1
    RETURNING tenant_id, user_id, balance, frozen, version
)
INSERT INTO points_ledger (tenant_id, user_id, version, entry_id, kind, balance_delta, frozen_delta, balance, frozen,
                           reference, idempotency_key, created_at)
SELECT tenant_id, user_id, version, %(entry_id)s, %(kind)s, %(amount)s, 0, balance, frozen,
       %(reference)s, %(idempotency_key)s, %(now)s
  FROM account
RETURNING entry_id, user_id, version, kind, balance_delta, frozen_delta, balance, frozen, reference, created_at;

-- name: debit
WITH account AS (
    UPDATE points_account
       SET balance = balance - %(amount)s, version = version + 1
     WHERE user_id = %(user_id)s AND balance >= %(amount)s AND (next_expiry_at IS NULL OR next_expiry_at > %(now)s)
       AND version = coalesce(%(expected_version)s, version)
    RETURNING tenant_id, user_id, balance, frozen, version
)
INSERT INTO points_ledger (tenant_id, user_id, version, entry_id, kind, balance_delta, frozen_delta, balance, frozen,
                           reference, idempotency_key, created_at)
SELECT tenant_id, user_id, version, %(entry_id)s, %(kind)s, -%(amount)s::bigint, 0, balance, frozen,
       %(reference)s, %(idempotency_key)s, %(now)s
  FROM account
RETURNING entry_id, user_id, version, kind, balance_delta, frozen_delta, balance, frozen, reference, created_at;

-- name: entry_of_key
SELECT entry_id, user_id, version, kind, balance_delta, frozen_delta, balance, frozen, reference, created_at
  FROM points_ledger
 WHERE idempotency_key = %(idempotency_key)s;

-- name: ledger_page
SELECT entry_id, user_id, version, kind, balance_delta, frozen_delta, balance, frozen, reference, created_at
  FROM points_ledger
 WHERE user_id = %(user_id)s
   AND version < coalesce(%(before_version)s, 9223372036854775807)
   AND (%(kind)s::text IS NULL OR kind = %(kind)s)
   AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s)
   AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s)
 ORDER BY version DESC
 LIMIT %(limit)s;

-- name: count_lots
-- Empty lots too: a released hold fills them again.
SELECT count(*) AS lots FROM points_lot WHERE user_id = %(user_id)s AND expires_at > %(now)s;

-- name: grow_lot
-- Points with the same date of expiry are one lot, so that small transfers do not add lots.
UPDATE points_lot
   SET granted = granted + %(amount)s, remaining = remaining + %(amount)s
 WHERE lot_id = (SELECT lot_id FROM points_lot WHERE user_id = %(user_id)s AND expires_at = %(expires_at)s ORDER BY lot_id LIMIT 1);

-- name: add_lot
INSERT INTO points_lot (tenant_id, lot_id, user_id, granted, remaining, expires_at)
VALUES (current_tenant(), %(lot_id)s, %(user_id)s, %(amount)s, %(amount)s, %(expires_at)s);

-- name: record_campaign
INSERT INTO points_campaign_grant (tenant_id, campaign, user_id, granted_at)
VALUES (current_tenant(), %(campaign)s, %(user_id)s, %(now)s);

-- name: take_lots_for_hold
-- The lots that expire first are spent first. The account's row is locked, so no lot changes meanwhile.
WITH live AS (
    SELECT tenant_id, lot_id, remaining, (sum(remaining) OVER (ORDER BY expires_at, lot_id) - remaining)::bigint AS sooner
      FROM points_lot
     WHERE user_id = %(user_id)s AND remaining > 0
), taken AS (
    UPDATE points_lot AS lot
       SET remaining = lot.remaining - least(live.remaining, %(amount)s - live.sooner)
      FROM live
     WHERE lot.tenant_id = live.tenant_id AND lot.lot_id = live.lot_id AND live.sooner < %(amount)s
    RETURNING lot.tenant_id, lot.lot_id, least(live.remaining, %(amount)s - live.sooner) AS amount
), noted AS (
    INSERT INTO points_hold_lot (tenant_id, hold_id, lot_id, amount) SELECT tenant_id, %(hold_id)s, lot_id, amount FROM taken
)
UPDATE points_hold SET lot_points = (SELECT coalesce(sum(amount), 0) FROM taken) WHERE hold_id = %(hold_id)s;

-- name: take_lots
WITH live AS (
    SELECT tenant_id, lot_id, remaining, (sum(remaining) OVER (ORDER BY expires_at, lot_id) - remaining)::bigint AS sooner
      FROM points_lot
     WHERE user_id = %(user_id)s AND remaining > 0
)
UPDATE points_lot AS lot
   SET remaining = lot.remaining - least(live.remaining, %(amount)s - live.sooner)
  FROM live
 WHERE lot.tenant_id = live.tenant_id AND lot.lot_id = live.lot_id AND live.sooner < %(amount)s
RETURNING lot.expires_at, least(live.remaining, %(amount)s - live.sooner) AS amount;

-- name: trim_lots
-- After a debit the lots must not exceed the balance: the lots that expire last shrink first.
WITH live AS (
    SELECT tenant_id, lot_id, remaining,
           (sum(remaining) OVER (ORDER BY expires_at DESC, lot_id DESC) - remaining)::bigint AS later,
           (sum(remaining) OVER ())::bigint - %(balance)s AS excess
      FROM points_lot
     WHERE user_id = %(user_id)s AND remaining > 0
)
UPDATE points_lot AS lot
   SET remaining = lot.remaining - least(live.remaining, live.excess - live.later)
  FROM live
 WHERE lot.tenant_id = live.tenant_id AND lot.lot_id = live.lot_id AND live.later < live.excess;

-- name: return_lots
-- The charge uses the lots that expire first; the rest of the hold returns to its lots.
WITH taken AS (
    SELECT part.tenant_id, part.lot_id, part.amount,
           (sum(part.amount) OVER (ORDER BY lot.expires_at, lot.lot_id) - part.amount)::bigint AS sooner
      FROM points_hold_lot AS part
      JOIN points_lot AS lot USING (tenant_id, lot_id)
     WHERE part.hold_id = %(hold_id)s
)
UPDATE points_lot AS lot
   SET remaining = lot.remaining + taken.amount - least(taken.amount, greatest(%(charged)s - taken.sooner, 0))
  FROM taken
 WHERE lot.tenant_id = taken.tenant_id AND lot.lot_id = taken.lot_id;

-- name: refresh_expiry
UPDATE points_account
   SET next_expiry_at = (SELECT min(expires_at) FROM points_lot WHERE user_id = %(user_id)s AND remaining > 0)
 WHERE user_id = %(user_id)s;

-- name: lapse_lots
WITH due AS (
    SELECT tenant_id, lot_id, remaining FROM points_lot WHERE user_id = %(user_id)s AND remaining > 0 AND expires_at <= %(now)s
), emptied AS (
    UPDATE points_lot AS lot SET remaining = 0 FROM due WHERE lot.tenant_id = due.tenant_id AND lot.lot_id = due.lot_id
), account AS (
    UPDATE points_account
       SET balance = balance - (SELECT sum(remaining) FROM due), version = version + 1
     WHERE user_id = %(user_id)s AND EXISTS (SELECT FROM due)
    RETURNING tenant_id, user_id, balance, frozen, version
)
INSERT INTO points_ledger (tenant_id, user_id, version, entry_id, kind, balance_delta, frozen_delta, balance, frozen,
                           reference, idempotency_key, created_at)
SELECT tenant_id, user_id, version, %(entry_id)s, 'ADJUST', -(SELECT sum(remaining) FROM due), 0, balance, frozen,
       'expired', 'lapse:' || user_id || ':' || version, %(now)s
  FROM account
RETURNING -balance_delta AS lapsed;

-- name: users_to_lapse
-- Across tenants, for the schedule.
SELECT tenant_id, user_id FROM points_account WHERE next_expiry_at <= %(now)s ORDER BY next_expiry_at LIMIT %(limit)s;

-- name: forget_low_notices
-- Across tenants. The next time that the balance falls there is a notice again.
UPDATE points_account AS account SET low_noticed_at = NULL
  FROM tenant
 WHERE tenant.tenant_id = account.tenant_id AND account.low_noticed_at IS NOT NULL
   AND (tenant.low_balance_points IS NULL OR account.balance >= tenant.low_balance_points);

-- name: note_low_balances
-- Across tenants. Only users whose balance changed at least once have an account.
UPDATE points_account AS account SET low_noticed_at = %(now)s
  FROM (SELECT low.tenant_id, low.user_id
          FROM tenant JOIN points_account AS low USING (tenant_id)
         WHERE tenant.low_balance_points IS NOT NULL AND low.balance < tenant.low_balance_points
           AND low.low_noticed_at IS NULL
         LIMIT %(limit)s
           FOR NO KEY UPDATE OF low SKIP LOCKED) AS due
 WHERE account.tenant_id = due.tenant_id AND account.user_id = due.user_id
RETURNING account.tenant_id, account.user_id;

-- name: overdue_holds
-- Across tenants, for the watchdog, which ends the task first.
SELECT tenant_id, hold_id, user_id, amount, charged, status, expires_at
  FROM points_hold
 WHERE status = 'HELD' AND expires_at <= %(now)s
 ORDER BY expires_at
 LIMIT %(limit)s;

-- name: is_user
SELECT FROM app_user WHERE user_id = %(user_id)s;

-- name: tenant_of_user
-- Across tenants, for the platform's administrators.
SELECT tenant_id FROM app_user WHERE user_id = %(user_id)s;
