"""Mails: their kinds, whom they reach, and the texts in Chinese and English."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import Any
from uuid import UUID

from artiway.outbox.model import Message

LANGUAGES = ("zh", "en")
DEFAULT_LANGUAGE = "zh"
LONGEST_NAME = 80
# The queue of the function that sends mail.
DESTINATION = "mail"


class MailKind(StrEnum):
    PASSWORD_RESET = "password_reset"  # noqa: S105 (a kind of mail, not a secret)
    PASSWORD_CHANGED = "password_changed"  # noqa: S105
    INVITATION = "invitation"
    NEW_PLACE = "new_place"
    LOW_BALANCE = "low_balance"


class AddressRefused(Exception):
    """The mail service does not accept the address. No retry can help."""


@dataclass(frozen=True)
class Letter:
    subject: str
    text: str


@dataclass(frozen=True)
class Recipient:
    """Whom a mail reaches. `wants_notices` is the user's own choice; mails about safety do not ask for it."""

    address: str
    language: str | None
    wants_notices: bool = True


@dataclass(frozen=True)
class OpenReset:
    user_id: UUID
    recipient: Recipient
    tenant_name: str


@dataclass(frozen=True)
class OpenInvitation:
    recipient: Recipient
    tenant_name: str
    inviter: str


@dataclass(frozen=True)
class NewPlace:
    recipient: Recipient
    address: str
    location: str
    at: str


@dataclass(frozen=True)
class LowBalance:
    recipient: Recipient
    tenant_name: str
    balance_points: int


def letter(kind: MailKind, language: str | None, facts: Mapping[str, object]) -> Letter:
    """The text of a mail in a language, Chinese if none is known. `facts` are texts of users: they stay plain words."""
    texts = _texts(language if language in LANGUAGES else DEFAULT_LANGUAGE)[kind]
    plain = {name: value if name == "link" else plain_words(str(value)) for name, value in facts.items()}
    return Letter(texts["subject"].format_map(plain).strip(), texts["text"].format_map(plain).strip() + "\n")


def placeholders(kind: MailKind, language: str) -> set[str]:
    """The names that a text uses."""
    texts = _texts(language)[kind]
    return {name for text in texts.values() for _, name, _, _ in Formatter().parse(text) if name}


def plain_words(text: str) -> str:
    """One line without an address: a tenant's name must not carry a link into a mail that we sign."""
    printable = "".join(one if one.isprintable() else " " for one in text)
    return " ".join(printable.replace("://", " ").replace("www.", "www ").split())[:LONGEST_NAME]


@cache
def _texts(language: str) -> Mapping[str, Any]:
    return tomllib.loads((files("artiway.mail.texts") / f"{language}.toml").read_text("utf-8"))


# --- messages to the function that sends mail: ids only, no address, no token, no text


def password_reset_message(reset_id: UUID) -> Message:
    return _message(MailKind.PASSWORD_RESET, {"resetId": str(reset_id)}, None, reset_id)


def password_changed_message(tenant_id: UUID, user_id: UUID) -> Message:
    return _message(MailKind.PASSWORD_CHANGED, {"tenantId": str(tenant_id), "userId": str(user_id)}, tenant_id, user_id)


def invitation_message(tenant_id: UUID, invitation_id: UUID) -> Message:
    data = {"tenantId": str(tenant_id), "invitationId": str(invitation_id)}
    return _message(MailKind.INVITATION, data, tenant_id, invitation_id)


def new_place_message(tenant_id: UUID, login_id: UUID) -> Message:
    return _message(MailKind.NEW_PLACE, {"tenantId": str(tenant_id), "loginId": str(login_id)}, tenant_id, login_id)


def low_balance_message(tenant_id: UUID, user_id: UUID) -> Message:
    return _message(MailKind.LOW_BALANCE, {"tenantId": str(tenant_id), "userId": str(user_id)}, tenant_id, user_id)


def _message(kind: MailKind, data: dict[str, str], tenant_id: UUID | None, about: UUID) -> Message:
    return Message(DESTINATION, f"mail:{about}", kind.value, data, tenant_id=tenant_id)
