"""Invitations in PostgreSQL: made and revoked as `artiway_app`, accepted as `artiway_service`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.identity.model import (
    Actor,
    Invitation,
    Invited,
    LoginEvent,
    LoginTaken,
    NewSession,
    NewUser,
    Role,
    TooManyUsers,
)
from artiway.identity.people import repository as people
from artiway.identity.repository import PostgresAccounts, insert_user
from artiway.ids import to_wire
from artiway.mail.model import invitation_message
from artiway.outbox.repository import Outbox
from artiway.platform import sql
from artiway.platform.database import Database, Row, Transaction

SQL = sql.load("artiway.identity.invitations")


class PostgresInvitations:
    def __init__(self, database: Database, audit: AuditLog, outbox: Outbox) -> None:
        self._database, self._audit, self._outbox = database, audit, outbox

    def invitations(self, tenant_id: UUID, *, before: UUID | None, limit: int) -> Sequence[Invitation]:
        with self._database.tenant_transaction(tenant_id) as tx:
            rows = tx.all(SQL["invitations"], {"invitation_id": None, "before": before, "limit": limit})
        return [_invitation(row) for row in rows]

    @contextlib.contextmanager
    def change(self, actor: Actor) -> Iterator[PostgresInvitationTransaction]:
        with self._database.tenant_transaction(actor.tenant_id) as tx:
            tx.run(people.SQL["lock_people"])
            yield PostgresInvitationTransaction(tx, self._audit, self._outbox, actor)


class PostgresInvitationTransaction:
    def __init__(self, tx: Transaction, audit: AuditLog, outbox: Outbox, actor: Actor) -> None:
        self._tx, self._audit, self._outbox, self._actor = tx, audit, outbox, actor

    def roles(self) -> Sequence[Role]:
        return people.roles_of(self._tx)

    def count_users(self) -> int:
        row = self._tx.one(people.SQL["count_users"])
        return int(row["users"]) if row else 0

    def count_open(self, now: datetime) -> int:
        row = self._tx.one(SQL["count_open"], {"now": now})
        return int(row["open"]) if row else 0

    def is_taken(self, email: str) -> bool:
        return self._tx.one(SQL["is_taken"], {"email": email}) is not None

    def unanswered(self, email: str) -> tuple[UUID, datetime] | None:
        row = self._tx.one(SQL["unanswered"], {"email": email})
        return None if row is None else (row["invitation_id"], row["expires_at"])

    def invitation(self, invitation_id: UUID) -> Invitation | None:
        row = self._tx.one(SQL["invitations"], {"invitation_id": invitation_id, "before": None, "limit": 1})
        return None if row is None else _invitation(row)

    def add(self, invitation: Invitation) -> None:
        self._tx.run(SQL["insert_invitation"], asdict(invitation) | {"roles": list(invitation.roles)})
        self._publish(invitation.invitation_id)

    def send_again(self, invitation_id: UUID, *, now: datetime, expires_at: datetime) -> None:
        self._tx.run(SQL["send_again"], {"invitation_id": invitation_id, "now": now, "expires_at": expires_at})
        self._publish(invitation_id)

    def revoke(self, invitation_id: UUID, *, now: datetime) -> None:
        self._tx.run(SQL["revoke"], {"invitation_id": invitation_id, "now": now})

    def record(self, action: str, target: str, details: dict[str, Any]) -> None:
        self._audit.record(self._tx, actor_id=self._actor.user_id, action=action, target=target, details=details)

    def _publish(self, invitation_id: UUID) -> None:
        self._outbox.publish(self._tx, [invitation_message(self._actor.tenant_id, invitation_id)])


class InvitedAccounts:
    """The side of the invited person, who has no tenant yet."""

    def __init__(self, database: Database, audit: AuditLog, accounts: PostgresAccounts) -> None:
        self._database, self._audit, self._accounts = database, audit, accounts

    def invited(self, token_hash: bytes, *, now: datetime) -> Invited | None:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["by_token"], {"token_hash": token_hash, "now": now})
        if row is None:
            return None
        return Invited(**row | {"roles": tuple(row["roles"]), "permissions": tuple(row["permissions"])})

    def accept(
        self,
        invited: Invited,
        token_hash: bytes,
        user: NewUser,
        session: NewSession,
        login: LoginEvent,
        *,
        most_users: int,
        now: datetime,
    ) -> bool:
        """Store user, session and login, and end the invitation, in one transaction. False: the link ended meanwhile.

        Raises LoginTaken, TooManyUsers.
        """
        facts = {
            "tenant_id": invited.tenant_id,
            "invitation_id": invited.invitation_id,
            "token_hash": token_hash,
            "user_id": user.user_id,
            "now": now,
        }
        with contextlib.suppress(_Ended), self._database.service_transaction() as tx:
            tx.run(SQL["lock_people_of"], facts)
            counted = tx.one(SQL["count_users_of"], facts)
            if counted is not None and counted["users"] >= most_users:
                raise TooManyUsers(most_users)
            insert_user(tx, user, LoginTaken("this e-mail address has an account already"))
            if tx.run(SQL["accept"], facts) == 0:
                raise _Ended
            if not self._accounts.open(tx, session, login):
                raise _Ended
            self._audit.record(
                tx,
                actor_id=user.user_id,
                action="invitation.accepted",
                target=to_wire("usr", user.user_id),
                details={"roles": list(user.roles), "invitationId": to_wire("inv", invited.invitation_id)},
                tenant_id=invited.tenant_id,
            )
            return True
        return False


class _Ended(Exception):
    """Rolls the transaction back: the invitation ended meanwhile."""


def _invitation(row: Row) -> Invitation:
    return Invitation(**row | {"roles": tuple(row["roles"])})
