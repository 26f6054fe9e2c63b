"""Moves points between available, held and spent. A balance is never negative, and every change is in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from artiway.errors import Refused
from artiway.ids import to_wire
from artiway.platform.clock import Clock
from artiway.points.model import (
    Account,
    AccountChanged,
    Change,
    Entry,
    EntryExists,
    Hold,
    HoldEnded,
    HoldExists,
    HoldStatus,
    InsufficientPoints,
    Kind,
    LedgerFilter,
    NoSuchHold,
    Terms,
)


class Ledger(Protocol):
    """Each method is one transaction, or a part of the caller's."""

    def account(self, tenant_id: UUID, user_id: UUID) -> Account: ...

    def page(
        self, tenant_id: UUID, user_id: UUID, wanted: LedgerFilter, *, before_version: int | None, limit: int
    ) -> Sequence[Entry]: ...

    def entry(self, tenant_id: UUID, idempotency_key: str) -> Entry | None: ...

    def hold(self, tenant_id: UUID, hold_id: UUID) -> Hold | None: ...

    def add_hold(self, tenant_id: UUID, hold: Hold, *, reference: str, now: datetime) -> None:
        """Raises HoldExists, InsufficientPoints."""

    def end_hold(
        self, tenant_id: UUID, hold_id: UUID, status: HoldStatus, *, charged: int, reference: str, now: datetime
    ) -> Hold | None:
        """End the hold if it is open and covers the charge. Returns the stored hold, or None if there is none."""

    def leave_tombstone(self, tenant_id: UUID, user_id: UUID, hold_id: UUID, *, now: datetime) -> bool:
        """Store a cancelled hold, so that a later `add_hold` fails. False if the hold exists."""

    def credit(self, tenant_id: UUID, change: Change, *, now: datetime) -> Entry:
        """Raises EntryExists."""

    def grant(self, tenant_id: UUID, change: Change, *, terms: Terms, now: datetime) -> Entry:
        """Raises NotFound for an unknown user, EntryExists, CampaignGranted, TooManyLots."""

    def debit(self, tenant_id: UUID, change: Change, *, expected_version: int | None, now: datetime) -> Entry:
        """Raises EntryExists, InsufficientPoints, AccountChanged."""

    def transfer(self, tenant_id: UUID, out: Change, into: Change, *, now: datetime) -> Entry:
        """Points keep their date of expiry. Raises as `grant` does, or InsufficientPoints."""

    def lapse(self, tenant_id: UUID, user_id: UUID, *, now: datetime) -> int: ...


class PointsService:
    """Every method is idempotent: a repeated call changes nothing and returns the same."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger, self._clock = ledger, clock

    def account(self, *, tenant_id: UUID, user_id: UUID) -> Account:
        return self._ledger.account(tenant_id, user_id)

    def entry(self, *, tenant_id: UUID, idempotency_key: str) -> Entry | None:
        return self._ledger.entry(tenant_id, idempotency_key)

    def entries(
        self, *, tenant_id: UUID, user_id: UUID, wanted: LedgerFilter, before_version: int | None, limit: int
    ) -> Sequence[Entry]:
        """Newest first."""
        return self._ledger.page(tenant_id, user_id, wanted, before_version=before_version, limit=limit)

    # --- hold, confirm, cancel

    def place_hold(
        self,
        *,
        tenant_id: UUID,
        user_id: UUID,
        hold_id: UUID,
        amount_points: int,
        expires_at: datetime,
        reference: str = "",
    ) -> Hold:
        """Reserve points. A repeated call returns the first hold. Raises HoldEnded if the hold was cancelled."""
        _check_amount(amount_points)
        wanted = Hold(hold_id, user_id, amount_points, 0, HoldStatus.HELD, expires_at)
        try:
            self._ledger.add_hold(tenant_id, wanted, reference=reference or str(hold_id), now=self._clock.now())
        except HoldExists:
            stored = self._stored_hold(tenant_id, hold_id)
            if stored.status is HoldStatus.CANCELLED:
                raise HoldEnded("the hold was cancelled before it was placed", hold=str(hold_id)) from None
            return stored
        return wanted

    def confirm_hold(self, *, tenant_id: UUID, hold_id: UUID, charge_points: int, reference: str = "") -> Hold:
        """Charge up to the held amount and release the rest. A hold that is confirmed already is returned as it is."""
        if charge_points == 0:
            raise Refused("a confirmation charges something; release a hold by cancelling it")
        _check_amount(charge_points)
        stored = self._end(tenant_id, hold_id, HoldStatus.CONFIRMED, charge_points, reference)
        if stored is None:
            raise NoSuchHold("there is no such hold", hold=str(hold_id))
        if stored.status is HoldStatus.HELD:
            raise Refused("a charge cannot exceed its hold", held=stored.amount, charge=charge_points)
        if stored.status is HoldStatus.CANCELLED:
            raise HoldEnded("the hold was cancelled", hold=str(hold_id))
        return stored

    def cancel_hold(self, *, tenant_id: UUID, user_id: UUID, hold_id: UUID, reference: str = "") -> Hold:
        """Release the held points. Without a hold it stores a cancelled one, so that a late `place_hold` fails."""
        stored = self._end(tenant_id, hold_id, HoldStatus.CANCELLED, 0, reference)
        if stored is None and self._ledger.leave_tombstone(tenant_id, user_id, hold_id, now=self._clock.now()):
            return self._stored_hold(tenant_id, hold_id)
        if stored is None:  # the hold was placed in between
            stored = self._end(tenant_id, hold_id, HoldStatus.CANCELLED, 0, reference)
        assert stored is not None
        return stored

    def _end(self, tenant_id: UUID, hold_id: UUID, status: HoldStatus, charged: int, reference: str) -> Hold | None:
        return self._ledger.end_hold(
            tenant_id,
            hold_id,
            status,
            charged=charged,
            reference=reference or str(hold_id),
            now=self._clock.now(),
        )

    def _stored_hold(self, tenant_id: UUID, hold_id: UUID) -> Hold:
        stored = self._ledger.hold(tenant_id, hold_id)
        if stored is None:
            raise NoSuchHold("there is no such hold", hold=str(hold_id))
        return stored

    # --- credit, debit, gifts, transfers

    def credit(self, *, tenant_id: UUID, change: Change) -> Entry:
        """Add points for a payment or a correction."""
        _check_amount(change.amount)
        try:
            return self._ledger.credit(tenant_id, change, now=self._clock.now())
        except EntryExists:
            return self._stored_entry(tenant_id, change.idempotency_key)

    def debit(self, *, tenant_id: UUID, change: Change, expected_version: int | None = None) -> Entry:
        """Remove points. With `expected_version` it raises AccountChanged if the account is at another version."""
        _check_amount(change.amount)
        try:
            return self._ledger.debit(tenant_id, change, expected_version=expected_version, now=self._clock.now())
        except EntryExists:
            return self._stored_entry(tenant_id, change.idempotency_key)

    def debit_at_most(self, *, tenant_id: UUID, change: Change) -> int:
        """Remove up to the amount, as the balance allows. Returns how much. For refunds that were made at WeChat."""
        self.lapse(tenant_id=tenant_id, user_id=change.user_id)
        while True:
            account = self._ledger.account(tenant_id, change.user_id)
            amount = min(account.balance, change.amount)
            if amount == 0:
                return 0
            part = Change(change.user_id, change.kind, amount, change.reference, change.idempotency_key)
            try:
                return -self.debit(tenant_id=tenant_id, change=part, expected_version=account.version).balance_delta
            except (AccountChanged, InsufficientPoints):
                continue  # another change was first; each round one change succeeds, so the loop ends

    def grant(
        self,
        *,
        tenant_id: UUID,
        user_id: UUID,
        amount_points: int,
        idempotency_key: str,
        reference: str,
        terms: Terms,
    ) -> Entry:
        """Grant points. A campaign grants to a user once, whatever the idempotency key."""
        _check_amount(amount_points)
        now = self._clock.now()
        if terms.expires_at is not None and terms.expires_at <= now:
            raise Refused("the request is not valid", fields=[{"field": "expiresAt", "reason": "is not in the future"}])
        change = Change(user_id, Kind.GIFT, amount_points, reference, idempotency_key)
        try:
            return self._ledger.grant(tenant_id, change, terms=terms, now=now)
        except EntryExists:
            return self._stored_entry(tenant_id, idempotency_key)

    def transfer(
        self, *, tenant_id: UUID, from_user_id: UUID, to_user_id: UUID, amount_points: int, idempotency_key: str
    ) -> Entry:
        """Move points to another user of the tenant. Returns the sender's entry."""
        _check_amount(amount_points)
        if from_user_id == to_user_id:
            raise Refused("points cannot be transferred to oneself")
        out = Change(
            from_user_id,
            Kind.TRANSFER_OUT,
            amount_points,
            to_wire("usr", to_user_id),
            f"transfer:{idempotency_key}:out",
        )
        into = Change(
            to_user_id, Kind.TRANSFER_IN, amount_points, to_wire("usr", from_user_id), f"transfer:{idempotency_key}:in"
        )
        try:
            return self._ledger.transfer(tenant_id, out, into, now=self._clock.now())
        except EntryExists:
            return self._stored_entry(tenant_id, out.idempotency_key)

    def lapse(self, *, tenant_id: UUID, user_id: UUID) -> int:
        """Remove expired points. Returns how many."""
        return self._ledger.lapse(tenant_id, user_id, now=self._clock.now())

    def _stored_entry(self, tenant_id: UUID, idempotency_key: str) -> Entry:
        entry = self._ledger.entry(tenant_id, idempotency_key)
        assert entry is not None
        return entry


def _check_amount(amount_points: int) -> None:
    if amount_points <= 0:
        raise Refused("an amount of points is positive", amount=amount_points)
