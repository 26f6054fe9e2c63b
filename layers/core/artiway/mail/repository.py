"""What mails say and whom they reach, from PostgreSQL, as `artiway_service`."""

from __future__ import annotations

from uuid import UUID

from artiway.mail.model import LowBalance, NewPlace, OpenInvitation, OpenReset, Recipient
from artiway.platform import sql
from artiway.platform.clock import Clock
from artiway.platform.database import Database, Row

SQL = sql.load("artiway.mail")


class PostgresMail:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def open_reset(self, reset_id: UUID, *, token_hash: bytes) -> OpenReset | None:
        facts = {"reset_id": reset_id, "token_hash": token_hash, "now": self._clock.now()}
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["reset"], facts)
            if row is None:
                return None
            tx.run(SQL["end_other_resets"], facts | {"user_id": row["user_id"]})
            tx.run(SQL["store_reset_token"], facts | {"user_id": row["user_id"]})
        return OpenReset(row["user_id"], _recipient(row), row["tenant_name"])

    def open_invitation(self, tenant_id: UUID, invitation_id: UUID, *, token_hash: bytes) -> OpenInvitation | None:
        facts = {"tenant_id": tenant_id, "invitation_id": invitation_id, "token_hash": token_hash}
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["invitation"], facts | {"now": self._clock.now()})
        if row is None:
            return None
        return OpenInvitation(Recipient(row["email"], row["language"]), row["tenant_name"], row["inviter"])

    def new_place(self, tenant_id: UUID, login_id: UUID) -> NewPlace | None:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["login"], {"tenant_id": tenant_id, "login_id": login_id})
        if row is None:
            return None
        return NewPlace(_recipient(row), row["address"], row["location"], f"{row['logged_at']:%Y-%m-%d %H:%M}")

    def low_balance(self, tenant_id: UUID, user_id: UUID) -> LowBalance | None:
        """None if the balance has risen since the message was published."""
        row = self._user(tenant_id, user_id)
        if row is None or row["low_balance_points"] is None or row["balance"] >= row["low_balance_points"]:
            return None
        return LowBalance(_recipient(row), row["tenant_name"], row["balance"])

    def recipient(self, tenant_id: UUID, user_id: UUID) -> tuple[Recipient, str] | None:
        row = self._user(tenant_id, user_id)
        return None if row is None else (_recipient(row), row["tenant_name"])

    def _user(self, tenant_id: UUID, user_id: UUID) -> Row | None:
        with self._database.service_transaction() as tx:
            return tx.one(SQL["recipient"], {"tenant_id": tenant_id, "user_id": user_id})


def _recipient(row: Row) -> Recipient:
    return Recipient(row["email"], row["language"], row["email_notices"])
