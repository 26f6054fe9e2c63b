"""Points: accounts, ledger entries and holds for tasks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from artiway.errors import Conflict, NotFound, Refused


class Kind(StrEnum):
    RECHARGE = "RECHARGE"
    GIFT = "GIFT"
    FREEZE = "FREEZE"
    CONFIRM = "CONFIRM"
    CANCEL = "CANCEL"
    REFUND = "REFUND"
    TRANSFER_IN = "TRANSFER_IN"
    TRANSFER_OUT = "TRANSFER_OUT"
    ADJUST = "ADJUST"


class HoldStatus(StrEnum):
    HELD = "HELD"
    CONFIRMED = "CONFIRMED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True)
class Account:
    """`version` counts the changes. A debit that depends on a read passes the version that it read."""

    balance: int
    frozen: int
    version: int


EMPTY = Account(balance=0, frozen=0, version=0)


@dataclass(frozen=True)
class Hold:
    """Points reserved for a task. A hold ends once: confirmed (some or all charged, the rest released) or cancelled."""

    hold_id: UUID
    user_id: UUID
    amount: int
    charged: int
    status: HoldStatus
    expires_at: datetime


@dataclass(frozen=True)
class Change:
    """A requested change. It happens once per idempotency key."""

    user_id: UUID
    kind: Kind
    amount: int
    reference: str
    idempotency_key: str


@dataclass(frozen=True)
class Terms:
    """The terms of a gift: its campaign, its date of expiry, and the user who grants it."""

    campaign: str | None = None
    expires_at: datetime | None = None
    granted_by: UUID | None = None


@dataclass(frozen=True)
class Entry:
    """A change in the ledger, with the account after it. An entry is never updated."""

    entry_id: UUID
    user_id: UUID
    version: int
    kind: Kind
    balance_delta: int
    frozen_delta: int
    balance: int
    frozen: int
    reference: str
    created_at: datetime


@dataclass(frozen=True)
class LedgerFilter:
    kind: Kind | None = None
    since: datetime | None = None
    until: datetime | None = None


class InsufficientPoints(Refused):
    code = "POINTS_402_INSUFFICIENT"

    def __init__(self, *, wanted_points: int, balance_points: int) -> None:
        super().__init__("there are not enough points", wanted=wanted_points, balance=balance_points)


class NoSuchHold(NotFound):
    code = "POINTS_404_NO_HOLD"


class HoldExists(Conflict):
    """The hold exists: a retry, or a concurrent request was first."""


class HoldEnded(Conflict):
    """The hold was ended in another way, maybe before it was placed."""

    code = "POINTS_409_HOLD_ENDED"


class EntryExists(Conflict):
    """An entry with this idempotency key exists."""


class CampaignGranted(Conflict):
    code = "POINTS_409_CAMPAIGN_GRANTED"


class TooManyLots(Conflict):
    """Each date of expiry is a lot, and every debit reads all lots of the account."""

    code = "POINTS_409_TOO_MANY_LOTS"

    def __init__(self, limit: int) -> None:
        super().__init__("this user's points have too many dates of expiry", limit=limit)


class AccountChanged(Conflict):
    """The account has changed since the caller read it."""

    code = "POINTS_409_ACCOUNT_CHANGED"
