"""What is true of points at every moment, as one query over all rows."""

from __future__ import annotations

import psycopg

_CHECKS = {
    "balance and frozen are the ledger's sums": """
        SELECT a.user_id FROM points_account a
          LEFT JOIN (SELECT tenant_id, user_id, sum(balance_delta) b, sum(frozen_delta) f, count(*) n
                       FROM points_ledger GROUP BY 1, 2) l USING (tenant_id, user_id)
         WHERE (a.balance, a.frozen, a.version) IS DISTINCT FROM (l.b::bigint, l.f::bigint, l.n::bigint)""",
    "nothing is negative": "SELECT user_id FROM points_account WHERE balance < 0 OR frozen < 0",
    "a hold was frozen once and ended at most once": """
        SELECT h.hold_id FROM points_hold h
          LEFT JOIN points_ledger l USING (tenant_id, hold_id)
         GROUP BY h.tenant_id, h.hold_id, h.status, h.amount
        HAVING count(*) FILTER (WHERE l.kind = 'FREEZE') <> (h.amount > 0)::int
            OR count(*) FILTER (WHERE l.kind IN ('CONFIRM', 'CANCEL')) <> (h.status <> 'HELD' AND h.amount > 0)::int""",
    "frozen is what is held": """
        SELECT a.user_id FROM points_account a
         WHERE a.frozen <> (SELECT coalesce(sum(amount), 0) FROM points_hold h
                             WHERE h.tenant_id = a.tenant_id AND h.user_id = a.user_id AND h.status = 'HELD')""",
    "lots hold no more than the balance": """
        SELECT a.user_id FROM points_account a
         WHERE a.balance < (SELECT coalesce(sum(remaining), 0) FROM points_lot l
                             WHERE l.tenant_id = a.tenant_id AND l.user_id = a.user_id)""",
    "the next expiry is the soonest lot's": """
        SELECT a.user_id FROM points_account a
         WHERE a.next_expiry_at IS DISTINCT FROM (SELECT min(expires_at) FROM points_lot l
                                                   WHERE l.tenant_id = a.tenant_id AND l.user_id = a.user_id
                                                     AND remaining > 0)""",
    "a transfer has two sides": """
        SELECT sum(balance_delta) FROM points_ledger WHERE kind IN ('TRANSFER_IN', 'TRANSFER_OUT')
        HAVING sum(balance_delta) <> 0""",
}


def violations(connection: psycopg.Connection) -> list[str]:
    found = []
    for name, query in _CHECKS.items():
        rows = connection.execute(query).fetchall()
        if rows:
            found.append(f"{name}: {rows[:3]}")
    return found
