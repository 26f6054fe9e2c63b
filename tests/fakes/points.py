"""Points as arithmetic on plain numbers: the model that PostgreSQL is held against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from artiway.errors import NotFound
from artiway.ids import new_id
from artiway.points.model import (
    EMPTY,
    Account,
    AccountChanged,
    CampaignGranted,
    Change,
    Entry,
    EntryExists,
    Hold,
    HoldExists,
    HoldStatus,
    InsufficientPoints,
    Kind,
    LedgerFilter,
    Terms,
)


@dataclass
class Lot:
    user_id: UUID
    remaining: int
    expires_at: datetime
    number: int


@dataclass
class _Tenant:
    users: set[UUID] = field(default_factory=set)
    entries: list[Entry] = field(default_factory=list)
    keys: dict[str, Entry] = field(default_factory=dict)
    holds: dict[UUID, Hold] = field(default_factory=dict)
    hold_lots: dict[UUID, list[tuple[Lot, int]]] = field(default_factory=dict)
    lots: list[Lot] = field(default_factory=list)
    campaigns: set[tuple[str, UUID]] = field(default_factory=set)


class FakeLedger:
    """Single-threaded; each method either happens whole or raises before it changed anything."""

    def __init__(self) -> None:
        self._tenants: dict[UUID, _Tenant] = defaultdict(_Tenant)

    def add_user(self, tenant_id: UUID, user_id: UUID) -> None:
        self._tenants[tenant_id].users.add(user_id)

    def account(self, tenant_id: UUID, user_id: UUID) -> Account:
        own = self._own(tenant_id, user_id)
        return Account(own[-1].balance, own[-1].frozen, own[-1].version) if own else EMPTY

    def lots(self, tenant_id: UUID, user_id: UUID) -> list[tuple[datetime, int]]:
        return [(lot.expires_at, lot.remaining) for lot in self._live(tenant_id, user_id)]

    def page(
        self, tenant_id: UUID, user_id: UUID, wanted: LedgerFilter, *, before_version: int | None, limit: int
    ) -> Sequence[Entry]:
        found = [
            entry
            for entry in reversed(self._own(tenant_id, user_id))
            if (before_version is None or entry.version < before_version)
            and (wanted.kind is None or entry.kind == wanted.kind)
            and (wanted.since is None or entry.created_at >= wanted.since)
            and (wanted.until is None or entry.created_at < wanted.until)
        ]
        return found[:limit]

    def entry(self, tenant_id: UUID, idempotency_key: str) -> Entry | None:
        return self._tenants[tenant_id].keys.get(idempotency_key)

    def hold(self, tenant_id: UUID, hold_id: UUID) -> Hold | None:
        return self._tenants[tenant_id].holds.get(hold_id)

    def add_hold(self, tenant_id: UUID, hold: Hold, *, reference: str, now: datetime) -> None:
        tenant = self._tenants[tenant_id]
        if hold.hold_id in tenant.holds:
            raise HoldExists("exists")
        change = Change(hold.user_id, Kind.FREEZE, hold.amount, reference, f"freeze:{hold.hold_id}")
        self._check_funds(tenant_id, change, None, now)
        self._append(tenant_id, change, -hold.amount, hold.amount, now)
        tenant.holds[hold.hold_id] = hold
        tenant.hold_lots[hold.hold_id] = self._take(tenant_id, hold.user_id, hold.amount)

    def end_hold(
        self, tenant_id: UUID, hold_id: UUID, status: HoldStatus, *, charged: int, reference: str, now: datetime
    ) -> Hold | None:
        tenant = self._tenants[tenant_id]
        hold = tenant.holds.get(hold_id)
        if hold is None or hold.status is not HoldStatus.HELD or charged > hold.amount:
            return hold
        kind = Kind.CONFIRM if status is HoldStatus.CONFIRMED else Kind.CANCEL
        change = Change(hold.user_id, kind, hold.amount, reference, f"settle:{hold_id}")
        self._append(tenant_id, change, hold.amount - charged, -hold.amount, now)
        tenant.holds[hold_id] = replace(hold, status=status, charged=charged)
        for lot, amount in tenant.hold_lots[hold_id]:
            used = min(amount, charged)
            charged -= used
            lot.remaining += amount - used
        return tenant.holds[hold_id]

    def leave_tombstone(self, tenant_id: UUID, user_id: UUID, hold_id: UUID, *, now: datetime) -> bool:
        holds = self._tenants[tenant_id].holds
        if hold_id in holds:
            return False
        holds[hold_id] = Hold(hold_id, user_id, 0, 0, HoldStatus.CANCELLED, now)
        return True

    def credit(self, tenant_id: UUID, change: Change, *, now: datetime) -> Entry:
        self._check_key(tenant_id, change)
        return self._append(tenant_id, change, change.amount, 0, now)

    def grant(self, tenant_id: UUID, change: Change, *, terms: Terms, now: datetime) -> Entry:
        tenant = self._tenants[tenant_id]
        self._check_user(tenant_id, change.user_id)
        self._check_key(tenant_id, change)
        if terms.campaign is not None:
            if (terms.campaign, change.user_id) in tenant.campaigns:
                raise CampaignGranted("granted")
            tenant.campaigns.add((terms.campaign, change.user_id))
        if terms.expires_at is not None:
            self._add_lot(tenant_id, change.user_id, change.amount, terms.expires_at)
        return self._append(tenant_id, change, change.amount, 0, now)

    def debit(self, tenant_id: UUID, change: Change, *, expected_version: int | None, now: datetime) -> Entry:
        self._check_key(tenant_id, change)
        self._check_funds(tenant_id, change, expected_version, now)
        entry = self._append(tenant_id, change, -change.amount, 0, now)
        excess = sum(lot.remaining for lot in self._live(tenant_id, change.user_id)) - entry.balance
        for lot in reversed(self._live(tenant_id, change.user_id)):
            given_up = min(lot.remaining, max(excess, 0))
            lot.remaining -= given_up
            excess -= given_up
        return entry

    def transfer(self, tenant_id: UUID, out: Change, into: Change, *, now: datetime) -> Entry:
        self._check_user(tenant_id, into.user_id)
        self._check_key(tenant_id, out)
        self._check_funds(tenant_id, out, None, now)
        entry = self._append(tenant_id, out, -out.amount, 0, now)
        self._append(tenant_id, into, into.amount, 0, now)
        for lot, amount in self._take(tenant_id, out.user_id, out.amount):
            self._add_lot(tenant_id, into.user_id, amount, lot.expires_at)
        return entry

    def lapse(self, tenant_id: UUID, user_id: UUID, *, now: datetime) -> int:
        due = [lot for lot in self._live(tenant_id, user_id) if lot.expires_at <= now]
        lapsed = sum(lot.remaining for lot in due)
        if lapsed:
            for lot in due:
                lot.remaining = 0
            key = f"lapse:{user_id}:{self.account(tenant_id, user_id).version + 1}"
            self._append(tenant_id, Change(user_id, Kind.ADJUST, lapsed, "expired", key), -lapsed, 0, now)
        return lapsed

    def _own(self, tenant_id: UUID, user_id: UUID) -> list[Entry]:
        return [entry for entry in self._tenants[tenant_id].entries if entry.user_id == user_id]

    def _live(self, tenant_id: UUID, user_id: UUID) -> list[Lot]:
        own = [lot for lot in self._tenants[tenant_id].lots if lot.user_id == user_id and lot.remaining]
        return sorted(own, key=lambda lot: (lot.expires_at, lot.number))

    def _add_lot(self, tenant_id: UUID, user_id: UUID, amount: int, expires_at: datetime) -> None:
        lots = self._tenants[tenant_id].lots
        for lot in lots:
            if (lot.user_id, lot.expires_at) == (user_id, expires_at):
                lot.remaining += amount
                return
        lots.append(Lot(user_id, amount, expires_at, len(lots)))

    def _take(self, tenant_id: UUID, user_id: UUID, amount: int) -> list[tuple[Lot, int]]:
        taken = []
        for lot in self._live(tenant_id, user_id):
            part = min(lot.remaining, amount)
            if part == 0:
                break
            lot.remaining -= part
            amount -= part
            taken.append((lot, part))
        return taken

    def _check_user(self, tenant_id: UUID, user_id: UUID) -> None:
        if user_id not in self._tenants[tenant_id].users:
            raise NotFound("there is no such user")

    def _check_key(self, tenant_id: UUID, change: Change) -> None:
        if change.idempotency_key in self._tenants[tenant_id].keys:
            raise EntryExists(change.idempotency_key)

    def _check_funds(self, tenant_id: UUID, change: Change, expected_version: int | None, now: datetime) -> None:
        account = self.account(tenant_id, change.user_id)
        due = sum(lot.remaining for lot in self._live(tenant_id, change.user_id) if lot.expires_at <= now)
        # Points that lapse are a change, too.
        if expected_version is not None and (account.version != expected_version or due):
            raise AccountChanged("changed")
        if account.balance - due < change.amount:
            raise InsufficientPoints(wanted_points=change.amount, balance_points=account.balance - due)
        self.lapse(tenant_id, change.user_id, now=now)

    def _append(self, tenant_id: UUID, change: Change, balance_delta: int, frozen_delta: int, now: datetime) -> Entry:
        tenant = self._tenants[tenant_id]
        before = self.account(tenant_id, change.user_id)
        entry = Entry(
            new_id(),
            change.user_id,
            before.version + 1,
            change.kind,
            balance_delta,
            frozen_delta,
            before.balance + balance_delta,
            before.frozen + frozen_delta,
            change.reference,
            now,
        )
        tenant.entries.append(entry)
        tenant.keys[change.idempotency_key] = entry
        return entry
