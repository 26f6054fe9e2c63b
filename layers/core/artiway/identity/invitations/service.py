"""Invitations: an owner names an address and roles, the invited person sets a password by a link in a mail."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from artiway.errors import NotFound
from artiway.identity.model import (
    LINK_LIFE,
    Actor,
    Invitation,
    InvitationEnded,
    InvitationJustSent,
    InvitationOpen,
    LoginTaken,
    PeopleLimits,
    Role,
    TooManyInvitations,
    TooManyUsers,
    email_of,
)
from artiway.identity.people.service import permissions_of
from artiway.ids import new_id, to_wire
from artiway.platform.clock import Clock

# Between two mails of one invitation.
SPACING = timedelta(minutes=1)


class InvitationTransaction(Protocol):
    """One transaction on the people of a tenant. Other changes of the same tenant wait."""

    def roles(self) -> Sequence[Role]: ...

    def count_users(self) -> int: ...

    def count_open(self, now: datetime) -> int: ...

    def is_taken(self, email: str) -> bool:
        """Whether a user of this tenant has the address. Other tenants are not visible here."""

    def unanswered(self, email: str) -> tuple[UUID, datetime] | None:
        """An invitation of this address that was neither accepted nor revoked, and when its link expires."""

    def invitation(self, invitation_id: UUID) -> Invitation | None: ...

    def add(self, invitation: Invitation) -> None:
        """Store it and publish its mail."""

    def send_again(self, invitation_id: UUID, *, now: datetime, expires_at: datetime) -> None: ...

    def revoke(self, invitation_id: UUID, *, now: datetime) -> None: ...

    def record(self, action: str, target: str, details: dict[str, Any]) -> None: ...


class Store(Protocol):
    def invitations(self, tenant_id: UUID, *, before: UUID | None, limit: int) -> Sequence[Invitation]: ...

    def change(self, actor: Actor) -> AbstractContextManager[InvitationTransaction]:
        """A transaction that commits at the end of the block."""


class InvitationService:
    def __init__(self, store: Store, clock: Clock, *, limits: Callable[[], PeopleLimits] = PeopleLimits) -> None:
        self._store, self._clock, self._limits = store, clock, limits

    def invitations(self, tenant_id: UUID, *, before: UUID | None, limit: int) -> Sequence[Invitation]:
        """Newest first."""
        return self._store.invitations(tenant_id, before=before, limit=limit)

    def invite(self, actor: Actor, *, email: str, roles: Sequence[str], language: str | None) -> Invitation:
        """Publish a mail with a link. Nobody can invite with permissions that they do not have."""
        spelled, now = email_of(email), self._clock.now()
        invitation = Invitation(
            invitation_id=new_id(),
            email=spelled,
            roles=tuple(sorted(set(roles))),
            language=language,
            invited_by=actor.user_id,
            inviter_email=None,
            created_at=now,
            sent_at=now,
            expires_at=now + LINK_LIFE,
        )
        with self._store.change(actor) as people:
            actor.must_have(permissions_of(people.roles(), invitation.roles))
            if people.is_taken(spelled):
                raise LoginTaken("this e-mail address has an account already")
            limits = self._limits()
            if people.count_users() >= limits.users:
                raise TooManyUsers(limits.users)
            if (known := people.unanswered(spelled)) is not None:
                if now < known[1]:
                    raise InvitationOpen(to_wire("inv", known[0]))
                people.revoke(known[0], now=now)  # expired: the new one takes its place
            if people.count_open(now) >= limits.invitations:
                raise TooManyInvitations(limits.invitations)
            people.add(invitation)
            details = {"email": spelled, "roles": list(invitation.roles)}
            people.record("invitation.sent", to_wire("inv", invitation.invitation_id), details)
            return _found(people.invitation(invitation.invitation_id))

    def resend(self, actor: Actor, invitation_id: UUID) -> Invitation:
        """Publish a mail with a new link. The link before ends at once."""
        now = self._clock.now()
        with self._store.change(actor) as people:
            known = _found(people.invitation(invitation_id))
            actor.must_have(permissions_of(people.roles(), known.roles))
            if known.accepted_at is not None or known.revoked_at is not None:
                raise InvitationEnded
            if (wait := known.sent_at + SPACING - now) > timedelta():
                raise InvitationJustSent(max(1, math.ceil(wait.total_seconds())))
            people.send_again(invitation_id, now=now, expires_at=now + LINK_LIFE)
            people.record("invitation.resent", to_wire("inv", invitation_id), {"email": known.email})
            return _found(people.invitation(invitation_id))

    def revoke(self, actor: Actor, invitation_id: UUID) -> None:
        """A revoked invitation stays revoked. Revoking it again changes nothing."""
        with self._store.change(actor) as people:
            known = _found(people.invitation(invitation_id))
            if known.accepted_at is not None:
                raise InvitationEnded
            if known.revoked_at is None:
                people.revoke(invitation_id, now=self._clock.now())
                people.record("invitation.revoked", to_wire("inv", invitation_id), {"email": known.email})


def _found(invitation: Invitation | None) -> Invitation:
    if invitation is None:
        raise NotFound("there is no such invitation")
    return invitation
