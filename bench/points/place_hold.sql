-- name: place_hold
-- The statement inside the function points_place_hold, so that a client can prepare it.
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
