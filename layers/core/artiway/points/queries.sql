-- Every statement that changes an account takes the account's row lock first, then rows that belong to it. Nothing here
-- can therefore deadlock, and whatever runs after it in the transaction sees the account alone.

-- name: account
SELECT balance, frozen, version, next_expiry_at FROM points_account WHERE user_id = %(user_id)s;

-- name: lock_accounts
SELECT user_id FROM points_account WHERE user_id = ANY (%(user_ids)s) ORDER BY user_id FOR UPDATE;

-- name: place_hold
-- Try. Changes nothing when the balance is short or holds points that have lapsed, so check and debit cannot be torn apart.
WITH account AS (
    UPDATE points_account
       SET balance = balance - %(amount)s, frozen = frozen + %(amount)s, version = version + 1
     WHERE user_id = %(user_id)s AND balance >= %(amount)s AND (next_expiry_at IS NULL OR next_expiry_at > %(now)s)
    RETURNING tenant_id, user_id, balance, frozen, version, next_expiry_at
), hold AS (
    INSERT INTO points_hold (tenant_id, hold_id, user_id, amount, status, created_at, expires_at)
    SELECT tenant_id, %(hold_id)s, user_id, %(amount)s, 'HELD', %(now)s, %(expires_at)s FROM account
), entry AS (
    INSERT INTO points_ledger (tenant_id, user_id, version, entry_id, kind, balance_delta, frozen_delta, balance, frozen,
                               hold_id, reference, idempotency_key, created_at)
    SELECT tenant_id, user_id, version, %(entry_id)s, 'FREEZE', -%(amount)s::bigint, %(amount)s, balance, frozen,
           %(hold_id)s, %(reference)s, %(idempotency_key)s, %(now)s
      FROM account
)
SELECT next_expiry_at FROM account;

-- name: end_hold
-- Confirm or cancel. Of two that race, the second waits for the account and then finds too little frozen, or its entry
-- breaks the unique index and all of it is undone.
WITH held AS (
    SELECT tenant_id, hold_id, user_id, amount, lot_points, expires_at
      FROM points_hold
     WHERE hold_id = %(hold_id)s AND status = 'HELD' AND amount >= %(charged)s
), account AS (
    UPDATE points_account AS account
       SET balance = account.balance + held.amount - %(charged)s,
           frozen = account.frozen - held.amount,
           version = account.version + 1
      FROM held
     WHERE account.tenant_id = held.tenant_id AND account.user_id = held.user_id AND account.frozen >= held.amount
    RETURNING account.balance, account.frozen, account.version
), ended AS (
    UPDATE points_hold AS hold
       SET status = %(status)s, charged = %(charged)s, ended_at = %(now)s
      FROM held, account
     WHERE hold.tenant_id = held.tenant_id AND hold.hold_id = held.hold_id
), entry AS (
    INSERT INTO points_ledger (tenant_id, user_id, version, entry_id, kind, balance_delta, frozen_delta, balance, frozen,
                               hold_id, reference, idempotency_key, created_at)
    SELECT held.tenant_id, held.user_id, account.version, %(entry_id)s, %(kind)s, held.amount - %(charged)s, -held.amount,
           account.balance, account.frozen, held.hold_id, %(reference)s, %(idempotency_key)s, %(now)s
      FROM held, account
)
SELECT held.hold_id, held.user_id, held.amount, %(charged)s AS charged, %(status)s AS status, held.expires_at, held.lot_points
  FROM held, account;

-- name: hold
SELECT hold_id, user_id, amount, charged, status, expires_at FROM points_hold WHERE hold_id = %(hold_id)s;

-- name: leave_tombstone
-- A cancel that came before its try: the late try will find this and fail.
INSERT INTO points_hold (tenant_id, hold_id, user_id, amount, status, created_at, expires_at, ended_at)
VALUES (current_tenant(), %(hold_id)s, %(user_id)s, 0, 'CANCELLED', %(now)s, %(now)s, %(now)s)
ON CONFLICT (tenant_id, hold_id) DO NOTHING;

-- name: credit
-- The account comes into being with its first points.
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

-- name: add_lot
INSERT INTO points_lot (tenant_id, lot_id, user_id, granted, remaining, expires_at)
VALUES (current_tenant(), %(lot_id)s, %(user_id)s, %(amount)s, %(amount)s, %(expires_at)s);

-- name: note_campaign
INSERT INTO points_campaign_grant (tenant_id, campaign, user_id, granted_at)
VALUES (current_tenant(), %(campaign)s, %(user_id)s, %(now)s);

-- name: take_lots_for_hold
-- The soonest to lapse are spent first. The account's row is locked, so what is read here is what is there.
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
-- After points were taken back, lots hold no more than the balance: what lapses last is given up first.
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
-- The charge came out of the soonest lots; the rest of the hold goes back to where it was taken.
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

-- name: overdue_holds
-- Across tenants, for the watchdog, which first brings the task to its end.
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
