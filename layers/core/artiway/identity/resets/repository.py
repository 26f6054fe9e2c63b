"""Password resets in PostgreSQL, as `artiway_service`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.errors import NotFound
from artiway.identity import repository as accounts
from artiway.identity.model import Account, PasswordSet, ResetRequest, Throttle
from artiway.ids import to_wire
from artiway.mail.model import password_changed_message, password_reset_message
from artiway.outbox.repository import Outbox
from artiway.platform import sql
from artiway.platform.database import Database, Transaction

SQL = sql.load("artiway.identity.resets")


class PostgresResets:
    def __init__(self, database: Database, audit: AuditLog, outbox: Outbox) -> None:
        self._database, self._audit, self._outbox = database, audit, outbox
        self._accounts = accounts.PostgresAccounts(database, audit)

    def add_reset(self, request: ResetRequest) -> None:
        with self._database.service_transaction() as tx:
            tx.run(SQL["insert_reset"], asdict(request))
            self._outbox.publish(tx, [password_reset_message(request.reset_id)])

    def use_reset(self, token_hash: bytes, password_hash: str, *, now: datetime) -> PasswordSet | None:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["use_reset"], {"token_hash": token_hash, "now": now})
            if row is None:
                return None
            tx.run(SQL["end_resets"], {"user_id": row["user_id"], "now": now})
            return self._set(tx, row["tenant_id"], row["user_id"], password_hash, "password.reset", None)

    def set_password(self, user_id: UUID, password_hash: str, *, kept_session: UUID | None) -> PasswordSet:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["tenant_of_user"], {"user_id": user_id})
            if row is None:
                raise NotFound("there is no such user")
            return self._set(tx, row["tenant_id"], user_id, password_hash, "password.changed", kept_session)

    def account_by_user(self, user_id: UUID) -> Account | None:
        return self._accounts.account_by_user(user_id)

    def count_attempt(self, subjects: Sequence[tuple[bytes, int]], throttle: Throttle) -> int:
        return self._accounts.count_attempt(subjects, throttle)

    def forgive_account(self, subject: bytes) -> None:
        with self._database.service_transaction() as tx:
            tx.run(accounts.SQL["forgive_account"], {"subject": subject})

    def _set(
        self,
        tx: Transaction,
        tenant_id: UUID,
        user_id: UUID,
        password_hash: str,
        action: str,
        kept_session: UUID | None,
    ) -> PasswordSet:
        """The password, the end of the sessions, the audit entry and the mail are one transaction."""
        tx.run(accounts.SQL["set_password_hash"], {"user_id": user_id, "password_hash": password_hash})
        facts = {"tenant_id": tenant_id, "user_id": user_id, "kept_session": kept_session}
        ended = [row["session_id"] for row in tx.all(SQL["end_sessions"], facts)]
        details = {"endedSessions": len(ended)}
        target = to_wire("usr", user_id)
        self._audit.record(tx, actor_id=user_id, action=action, target=target, details=details, tenant_id=tenant_id)
        self._outbox.publish(tx, [password_changed_message(tenant_id, user_id)])
        return PasswordSet(tenant_id, user_id, ended)
