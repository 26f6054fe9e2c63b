"""Sends mail. The token of a link is made here, at the last moment: only its hash is stored, only the mail has it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import quote
from uuid import UUID

from artiway.identity.model import SECRET_BYTES, digest
from artiway.mail.model import (
    AddressRefused,
    LowBalance,
    MailKind,
    NewPlace,
    OpenInvitation,
    OpenReset,
    Recipient,
    letter,
)
from artiway.platform import metrics
from artiway.platform.logs import Logger

logger = Logger("mail")
RESET_PREFIX = "rst_"
INVITATION_PREFIX = "inv_"
# In the fragment, which browsers send to no server: so no access log has a token.
RESET_PAGE = "/#/reset?token="
INVITATION_PAGE = "/#/invitation?token="


class Mailer(Protocol):
    def send(self, to: str, subject: str, text: str) -> None:
        """Raises AddressRefused. Any other failure may pass."""


class Store(Protocol):
    """Each method is one transaction over all tenants. None: there is nothing to send any more."""

    def open_reset(self, reset_id: UUID, *, token_hash: bytes) -> OpenReset | None:
        """Store the hash of the link. Earlier links of the same user end."""

    def open_invitation(self, tenant_id: UUID, invitation_id: UUID, *, token_hash: bytes) -> OpenInvitation | None: ...

    def new_place(self, tenant_id: UUID, login_id: UUID) -> NewPlace | None: ...

    def low_balance(self, tenant_id: UUID, user_id: UUID) -> LowBalance | None: ...

    def recipient(self, tenant_id: UUID, user_id: UUID) -> tuple[Recipient, str] | None:
        """The user, and the name of the tenant."""


class MailService:
    """A message may come twice. Then the mail is sent again, and its newest link is the valid one."""

    def __init__(self, store: Store, mailer: Mailer | None, *, console_url: str) -> None:
        """Without a mailer no mail is sent: the deployment has no sender."""
        self._store, self._mailer = store, mailer
        self._console_url = console_url.rstrip("/")
        self._kinds: Mapping[MailKind, Callable[[Mapping[str, str]], None]] = {
            MailKind.PASSWORD_RESET: self._password_reset,
            MailKind.PASSWORD_CHANGED: self._password_changed,
            MailKind.INVITATION: self._invitation,
            MailKind.NEW_PLACE: self._new_place,
            MailKind.LOW_BALANCE: self._low_balance,
        }

    def deliver(self, kind: MailKind, data: Mapping[str, str]) -> None:
        """Raises KeyError and ValueError for a message that is none of ours."""
        self._kinds[kind](data)

    def _password_reset(self, data: Mapping[str, str]) -> None:
        reset_id = UUID(data["resetId"])
        token = RESET_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        found = self._store.open_reset(reset_id, token_hash=digest(token))
        if found is not None:
            facts = {"tenant": found.tenant_name, "link": self._link(RESET_PAGE, token)}
            self._send(MailKind.PASSWORD_RESET, found.recipient, facts)

    def _invitation(self, data: Mapping[str, str]) -> None:
        tenant_id, invitation_id = UUID(data["tenantId"]), UUID(data["invitationId"])
        token = INVITATION_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        found = self._store.open_invitation(tenant_id, invitation_id, token_hash=digest(token))
        if found is not None:
            link = self._link(INVITATION_PAGE, token)
            facts = {"tenant": found.tenant_name, "inviter": found.inviter, "link": link}
            self._send(MailKind.INVITATION, found.recipient, facts)

    def _password_changed(self, data: Mapping[str, str]) -> None:
        found = self._store.recipient(UUID(data["tenantId"]), UUID(data["userId"]))
        if found is not None:
            self._send(MailKind.PASSWORD_CHANGED, found[0], {"tenant": found[1]})

    def _new_place(self, data: Mapping[str, str]) -> None:
        found = self._store.new_place(UUID(data["tenantId"]), UUID(data["loginId"]))
        if found is not None:
            facts = {"location": found.location, "address": found.address, "at": found.at}
            self._send(MailKind.NEW_PLACE, found.recipient, facts)

    def _low_balance(self, data: Mapping[str, str]) -> None:
        found = self._store.low_balance(UUID(data["tenantId"]), UUID(data["userId"]))
        if found is not None and found.recipient.wants_notices:
            facts = {"tenant": found.tenant_name, "balance": found.balance_points}
            self._send(MailKind.LOW_BALANCE, found.recipient, facts)

    def _link(self, page: str, token: str) -> str:
        return f"{self._console_url}{page}{quote(token)}"

    def _send(self, kind: MailKind, recipient: Recipient, facts: Mapping[str, object]) -> None:
        if self._mailer is None:
            logger.warning("mail not sent: the deployment has no sender", kind=kind)
            metrics.emit("MailsUnsent", 1)
            return
        written = letter(kind, recipient.language, facts)
        try:
            self._mailer.send(recipient.address, written.subject, written.text)
        except AddressRefused:
            logger.warning("mail not sent: the address was refused", kind=kind)
            metrics.emit("MailsUnsent", 1)
            return
        logger.info("mail sent", kind=kind)
        metrics.emit("MailsSent", 1)
