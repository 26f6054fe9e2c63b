"""Accounts, ledger and holds in PostgreSQL: one transaction per method, or a savepoint in the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.errors import NotFound
from artiway.ids import new_id, to_wire
from artiway.mail.model import low_balance_message
from artiway.outbox.repository import Outbox
from artiway.platform import sql
from artiway.platform.database import Database, Row, Transaction
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
    TooManyLots,
)

SQL = sql.load("artiway.points")
# Twice as many as a daily grant that lasts a year needs. The setting `points_lots` replaces it.
LOTS_PER_USER = 1_000


class PostgresLedger:
    """The rows of one tenant at a time, as `artiway_app`."""

    def __init__(self, database: Database, audit: AuditLog, *, lots_per_user: int = LOTS_PER_USER) -> None:
        self._database, self._audit, self._lots_per_user = database, audit, lots_per_user

    def account(self, tenant_id: UUID, user_id: UUID) -> Account:
        with self._database.tenant_transaction(tenant_id) as tx:
            return _account(tx, user_id)

    def page(
        self, tenant_id: UUID, user_id: UUID, wanted: LedgerFilter, *, before_version: int | None, limit: int
    ) -> Sequence[Entry]:
        parameters = {"user_id": user_id, "before_version": before_version, "limit": limit, **asdict(wanted)}
        with self._database.tenant_transaction(tenant_id) as tx:
            return [_entry(row) for row in tx.all(SQL["ledger_page"], parameters)]

    def entry(self, tenant_id: UUID, idempotency_key: str) -> Entry | None:
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["entry_of_key"], {"idempotency_key": idempotency_key})
        return _entry(row) if row else None

    def hold(self, tenant_id: UUID, hold_id: UUID) -> Hold | None:
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["hold"], {"hold_id": hold_id})
        return _hold(row) if row else None

    # --- hold, confirm, cancel

    def add_hold(self, tenant_id: UUID, hold: Hold, *, reference: str, now: datetime) -> None:
        exists = HoldExists("the hold exists", hold=str(hold.hold_id))
        parameters = {
            "hold_id": hold.hold_id,
            "user_id": hold.user_id,
            "amount": hold.amount,
            "expires_at": hold.expires_at,
            "now": now,
            "entry_id": new_id(),
            "reference": reference,
            "idempotency_key": f"freeze:{hold.hold_id}",
        }
        with self._database.tenant_transaction(tenant_id) as tx:
            placed = tx.one(SQL["place_hold"], parameters, on_duplicate=exists)
            if placed is None and self._has_lapsed(tx, hold.user_id, now):
                placed = tx.one(SQL["place_hold"], parameters, on_duplicate=exists)
            if placed is None:
                if tx.one(SQL["hold"], parameters):
                    raise exists
                account = _account(tx, hold.user_id)
                raise InsufficientPoints(wanted_points=hold.amount, balance_points=account.balance)
            if placed["next_expiry_at"] is not None:
                tx.run(SQL["take_lots_for_hold"], parameters)
                tx.run(SQL["refresh_expiry"], parameters)

    def end_hold(
        self, tenant_id: UUID, hold_id: UUID, status: HoldStatus, *, charged: int, reference: str, now: datetime
    ) -> Hold | None:
        parameters = {
            "hold_id": hold_id,
            "status": status,
            "kind": Kind.CONFIRM if status is HoldStatus.CONFIRMED else Kind.CANCEL,
            "charged": charged,
            "now": now,
            "entry_id": new_id(),
            "reference": reference,
            "idempotency_key": f"settle:{hold_id}",
        }
        try:
            with self._database.tenant_transaction(tenant_id) as tx:
                row = tx.one(SQL["end_hold"], parameters, on_duplicate=EntryExists("the hold has ended"))
                if row is None:
                    row = tx.one(SQL["hold"], parameters)
                    return _hold(row) if row else None
                if row.pop("lot_points"):
                    tx.run(SQL["return_lots"], parameters)
                    tx.run(SQL["refresh_expiry"], row)
                return _hold(row)
        except EntryExists:
            return self.hold(tenant_id, hold_id)

    def leave_tombstone(self, tenant_id: UUID, user_id: UUID, hold_id: UUID, *, now: datetime) -> bool:
        with self._database.tenant_transaction(tenant_id) as tx:
            return tx.run(SQL["leave_tombstone"], {"user_id": user_id, "hold_id": hold_id, "now": now}) == 1

    # --- credit, debit, gifts, transfers

    def credit(self, tenant_id: UUID, change: Change, *, now: datetime) -> Entry:
        with self._database.tenant_transaction(tenant_id) as tx:
            return self._credit(tx, change, now)

    def grant(self, tenant_id: UUID, change: Change, *, terms: Terms, now: datetime) -> Entry:
        with self._database.tenant_transaction(tenant_id) as tx:
            _check_user(tx, change.user_id)
            entry = self._credit(tx, change, now)
            if terms.campaign is not None:
                granted = CampaignGranted("this campaign has given to this user already", campaign=terms.campaign)
                row = {"campaign": terms.campaign, "user_id": change.user_id, "now": now}
                tx.run(SQL["record_campaign"], row, on_duplicate=granted)
            if terms.expires_at is not None:
                self._add_lot(tx, change.user_id, change.amount, terms.expires_at, now)
                tx.run(SQL["refresh_expiry"], {"user_id": change.user_id})
            if terms.granted_by is not None:
                self._audit.record(
                    tx,
                    actor_id=terms.granted_by,
                    action="points.grant",
                    target=to_wire("usr", change.user_id),
                    details={"amount": change.amount, "reference": change.reference, "campaign": terms.campaign},
                )
        return entry

    def debit(self, tenant_id: UUID, change: Change, *, expected_version: int | None, now: datetime) -> Entry:
        with self._database.tenant_transaction(tenant_id) as tx:
            entry = self._debit(tx, change, expected_version, now)
            trimmed = {"user_id": change.user_id, "balance": entry.balance}
            if tx.run(SQL["trim_lots"], trimmed):
                tx.run(SQL["refresh_expiry"], trimmed)
        return entry

    def transfer(self, tenant_id: UUID, out: Change, into: Change, *, now: datetime) -> Entry:
        with self._database.tenant_transaction(tenant_id) as tx:
            _check_user(tx, into.user_id)
            # In one order, so that two opposite transfers cannot deadlock.
            tx.run(SQL["lock_accounts"], {"user_ids": [out.user_id, into.user_id]})
            entry = self._debit(tx, out, None, now)
            self._credit(tx, into, now)
            taken = tx.all(SQL["take_lots"], {"user_id": out.user_id, "amount": out.amount})
            for lot in taken:
                self._add_lot(tx, into.user_id, lot["amount"], lot["expires_at"], now)
            for user_id in (out.user_id, into.user_id) if taken else ():
                tx.run(SQL["refresh_expiry"], {"user_id": user_id})
        return entry

    def lapse(self, tenant_id: UUID, user_id: UUID, *, now: datetime) -> int:
        with self._database.tenant_transaction(tenant_id) as tx:
            return self._lapse(tx, user_id, now) if self._is_due(tx, user_id, now) else 0

    def _credit(self, tx: Transaction, change: Change, now: datetime) -> Entry:
        row = tx.one(SQL["credit"], _parameters(change, now), on_duplicate=EntryExists(change.idempotency_key))
        assert row is not None
        return _entry(row)

    def _debit(self, tx: Transaction, change: Change, expected_version: int | None, now: datetime) -> Entry:
        parameters = {**_parameters(change, now), "expected_version": expected_version}
        exists = EntryExists(change.idempotency_key)
        row = tx.one(SQL["debit"], parameters, on_duplicate=exists)
        if row is None and self._has_lapsed(tx, change.user_id, now):
            row = tx.one(SQL["debit"], parameters, on_duplicate=exists)
        if row is not None:
            return _entry(row)
        if tx.one(SQL["entry_of_key"], parameters):
            raise exists
        account = _account(tx, change.user_id)
        if expected_version is not None and account.version != expected_version:
            raise AccountChanged("the account has changed since it was read", version=account.version)
        raise InsufficientPoints(wanted_points=change.amount, balance_points=account.balance)

    def _add_lot(self, tx: Transaction, user_id: UUID, amount: int, expires_at: datetime, now: datetime) -> None:
        """Runs under the account's row lock, so that no concurrent grant counts the same lots."""
        lot = {"lot_id": new_id(), "user_id": user_id, "amount": amount, "expires_at": expires_at, "now": now}
        if tx.run(SQL["grow_lot"], lot):
            return
        counted = tx.one(SQL["count_lots"], lot)
        if counted is not None and counted["lots"] >= self._lots_per_user:
            raise TooManyLots(self._lots_per_user)
        tx.run(SQL["add_lot"], lot)

    def _has_lapsed(self, tx: Transaction, user_id: UUID, now: datetime) -> bool:
        return self._is_due(tx, user_id, now) and self._lapse(tx, user_id, now) > 0

    @staticmethod
    def _is_due(tx: Transaction, user_id: UUID, now: datetime) -> bool:
        row = tx.one(SQL["account"], {"user_id": user_id})
        return row is not None and row["next_expiry_at"] is not None and row["next_expiry_at"] <= now

    @staticmethod
    def _lapse(tx: Transaction, user_id: UUID, now: datetime) -> int:
        """Remove expired points under the account's row lock."""
        tx.run(SQL["lock_accounts"], {"user_ids": [user_id]})
        parameters = {"user_id": user_id, "now": now, "entry_id": new_id()}
        row = tx.one(SQL["lapse_lots"], parameters)
        if row is None:
            return 0
        tx.run(SQL["refresh_expiry"], parameters)
        return int(row["lapsed"])


class PostgresOverview:
    """Accounts and holds of all tenants for schedules and administrators, as `artiway_service`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def users_to_lapse(self, *, now: datetime, limit: int) -> Sequence[tuple[UUID, UUID]]:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["users_to_lapse"], {"now": now, "limit": limit})
        return [(row["tenant_id"], row["user_id"]) for row in rows]

    def overdue_holds(self, *, now: datetime, limit: int) -> Sequence[tuple[UUID, Hold]]:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["overdue_holds"], {"now": now, "limit": limit})
        return [(row.pop("tenant_id"), _hold(row)) for row in rows]

    def publish_low_balances(self, outbox: Outbox, *, now: datetime, limit: int) -> int:
        """Publish a mail for each user whose balance fell below the tenant's warning level. Returns how many."""
        with self._database.service_transaction() as tx:
            tx.run(SQL["forget_low_notices"])
            rows = tx.all(SQL["note_low_balances"], {"now": now, "limit": limit})
            outbox.publish(tx, [low_balance_message(row["tenant_id"], row["user_id"]) for row in rows])
        return len(rows)

    def tenant_of_user(self, user_id: UUID) -> UUID:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["tenant_of_user"], {"user_id": user_id})
        if row is None:
            raise NotFound("there is no such user")
        tenant_id: UUID = row["tenant_id"]
        return tenant_id


def _account(tx: Transaction, user_id: UUID) -> Account:
    row = tx.one(SQL["account"], {"user_id": user_id})
    return Account(row["balance"], row["frozen"], row["version"]) if row else EMPTY


def _check_user(tx: Transaction, user_id: UUID) -> None:
    if tx.one(SQL["is_user"], {"user_id": user_id}) is None:
        raise NotFound("there is no such user")


def _parameters(change: Change, now: datetime) -> Mapping[str, Any]:
    return {**asdict(change), "now": now, "entry_id": new_id()}


def _entry(row: Row) -> Entry:
    return Entry(**{**row, "kind": Kind(row["kind"])})


def _hold(row: Row) -> Hold:
    return Hold(**{**row, "status": HoldStatus(row["status"])})
