"""Orders, refunds and bills in PostgreSQL. An order changes in its tenant's transaction; only lookups cross tenants."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.errors import NotFound
from artiway.idempotency.model import KeyReused
from artiway.ids import to_wire
from artiway.payments.alerts import SQL, Alerts
from artiway.payments.bill import Bill, Difference, Finding, OurPayment, OurRecords, OurRefund
from artiway.payments.model import (
    Channel,
    CloseReason,
    Flag,
    OpenLimits,
    Order,
    OrderStatus,
    Outcome,
    Payment,
    Refund,
    RefundLine,
    RefundReport,
    RefundStatus,
    Source,
    TooManyOpen,
    status_after_refunds,
)
from artiway.platform.database import Database, Row, Transaction

KEY_LIFE = timedelta(hours=24)


class PostgresLockedOrder:
    """An order under its row lock."""

    def __init__(self, tx: Transaction, order: Order, alerts: Alerts, audit: AuditLog, query_after: timedelta) -> None:
        self._tx, self.order, self._alerts, self._audit, self._query_after = tx, order, alerts, audit, query_after

    def complete(self, payment: Payment, now: datetime) -> None:
        if self._tx.run(SQL["complete_order"], {**asdict(payment), "order_id": self.order.order_id, "now": now}) != 1:
            raise RuntimeError("an order under its lock changed")

    def record_transaction(self, payment: Payment, outcome: Outcome, source: Source, now: datetime) -> bool:
        row = {**asdict(payment), "order_id": self.order.order_id, "outcome": outcome, "source": source, "now": now}
        return self._tx.run(SQL["record_transaction"], row) == 1

    def flag(self, flag: Flag) -> None:
        self._tx.run(SQL["flag_order"], {"order_id": self.order.order_id, "flag": flag})

    def alert(self, key: str, kind: str, details: Mapping[str, Any]) -> None:
        self._alerts.write(self._tx, key, kind, details)

    def audit(self, actor_id: UUID, action: str, details: Mapping[str, Any]) -> None:
        target = to_wire("ord", self.order.order_id)
        self._audit.record(self._tx, actor_id=actor_id, action=action, target=target, details=details)

    def refunds(self) -> list[Refund]:
        return [_refund(row) for row in self._tx.all(SQL["refunds_of_order"], {"order_id": self.order.order_id})]

    def refund_of_key(self, idempotency_key: str, *, kept_since: datetime) -> Refund | None:
        kept = {"idempotency_key": idempotency_key, "kept_since": kept_since}
        self._tx.run(SQL["forget_refund_key"], kept)
        row = self._tx.one(SQL["refund_of_key"], kept)
        return _refund(row) if row else None

    def add_refund(self, refund: Refund, *, wechat_id: str | None, idempotency_key: str | None) -> bool:
        row = {
            **asdict(refund),
            "wechat_id": wechat_id,
            "ended_at": refund.started_at if refund.status.is_final else None,
            "idempotency_key": idempotency_key,
            "next_query_at": refund.started_at + self._query_after,
        }
        if self._tx.run(SQL["add_refund"], row, on_duplicate=KeyReused()) == 0:
            return False
        self._tx.run(SQL["reserve_refund"], row)
        return True

    def move_refund(self, refund: Refund, report: RefundReport, now: datetime) -> None:
        row = {
            "refund_id": refund.refund_id,
            "status": report.status,
            "wechat_id": report.wechat_id,
            "started_at": report.started_at,
            "ended_at": now if report.status.is_final else None,
        }
        self._tx.run(SQL["move_refund"], row)

    def release_refund(self, refund: Refund) -> None:
        row = {"order_id": refund.order_id, "amount_fen": -refund.amount_fen, "points": -refund.points}
        self._tx.run(SQL["reserve_refund"], row)

    def record_debit(self, refund: Refund, points_taken: int) -> None:
        self._tx.run(SQL["debit_refund"], {"refund_id": refund.refund_id, "points_taken": points_taken})

    def update_status(self) -> None:
        status = status_after_refunds(self.order, self.refunds())
        self._tx.run(SQL["set_order_status"], {"order_id": self.order.order_id, "status": status})


class PostgresOrders:
    """`database` sees one tenant at a time, `service_database` finds the tenant of an order number."""

    def __init__(
        self, database: Database, service_database: Database, alerts: Alerts, audit: AuditLog, *, query_after_s: int
    ) -> None:
        self._database, self._service, self._alerts, self._audit = database, service_database, alerts, audit
        self._query_after = timedelta(seconds=query_after_s)

    def add(self, order: Order, *, idempotency_key: str, next_query_at: datetime, limits: OpenLimits) -> Order:
        row = {**asdict(order), "idempotency_key": idempotency_key, "next_query_at": next_query_at}
        with self._database.tenant_transaction(order.tenant_id) as tx:
            kept = {"idempotency_key": idempotency_key, "kept_since": order.created_at - KEY_LIFE}
            tx.run(SQL["lock_open_orders"])
            tx.run(SQL["forget_order_key"], kept)
            if tx.run(SQL["add_order"], row):
                _check_open(tx, order.user_id, limits)
            stored = tx.one(SQL["order_of_key"], kept)
        assert stored is not None
        return _order(stored)

    def order(self, tenant_id: UUID, order_id: UUID) -> Order | None:
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["order"], {"order_id": order_id})
        return _order(row) if row else None

    def page(self, tenant_id: UUID, *, user_id: UUID | None, before: UUID | None, limit: int) -> Sequence[Order]:
        with self._database.tenant_transaction(tenant_id) as tx:
            rows = tx.all(SQL["orders_page"], {"user_id": user_id, "before": before, "limit": limit})
        return [_order(row) for row in rows]

    def refunds(
        self, tenant_id: UUID, *, user_id: UUID | None, order_id: UUID | None, before: UUID | None, limit: int
    ) -> Sequence[RefundLine]:
        facts = {"user_id": user_id, "order_id": order_id, "before": before, "limit": limit}
        with self._database.tenant_transaction(tenant_id) as tx:
            rows = tx.all(SQL["refunds_page"], facts)
        return [RefundLine(**row | {"status": RefundStatus(row["status"])}) for row in rows]

    def buyer(self, tenant_id: UUID, user_id: UUID) -> tuple[str, str]:
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["buyer"], {"user_id": user_id})
        assert row is not None
        return row["tenant_name"], row["display_name"] or row["email"] or row["phone"] or ""

    def keep_prepay(self, order: Order, code: str, until: datetime, *, now: datetime) -> None:
        with self._database.tenant_transaction(order.tenant_id) as tx:
            tx.run(SQL["keep_prepay"], {"order_id": order.order_id, "code": code, "until": until, "now": now})

    def close(self, order: Order, reason: CloseReason) -> bool:
        with self._database.tenant_transaction(order.tenant_id) as tx:
            return tx.run(SQL["close_order"], {"order_id": order.order_id, "reason": reason}) == 1

    def claim_poll(self, order: Order, *, now: datetime, spacing: timedelta) -> bool:
        row = {"order_id": order.order_id, "now": now, "asked_before": now - spacing}
        with self._database.tenant_transaction(order.tenant_id) as tx:
            return tx.run(SQL["claim_poll"], row) == 1

    @contextlib.contextmanager
    def lock(self, tenant_id: UUID, order_id: UUID) -> Iterator[PostgresLockedOrder]:
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["lock_order"], {"order_id": order_id})
            if row is None:
                raise NotFound("there is no such order")
            yield PostgresLockedOrder(tx, _order(row), self._alerts, self._audit, self._query_after)

    # --- across tenants

    def by_trade_no(self, out_trade_no: str) -> Order | None:
        with self._service.service_transaction() as tx:
            row = tx.one(SQL["order_of_trade_no"], {"out_trade_no": out_trade_no})
        return _order(row) if row else None

    def reassign(self, payment: Payment, order: Order) -> None:
        row = {**asdict(payment), "tenant_id": order.tenant_id, "order_id": order.order_id}
        with self._service.service_transaction() as tx:
            tx.run(SQL["reassign_transaction"], row)

    def store_stray(self, payment: Payment, outcome: Outcome, source: Source, now: datetime) -> None:
        facts = {
            "mchid": payment.mchid,
            "transactionId": payment.transaction_id,
            "outTradeNo": payment.out_trade_no,
            "amountFen": payment.amount_fen,
        }
        with self._service.service_transaction() as tx:
            row = {**asdict(payment), "outcome": outcome, "source": source, "now": now}
            tx.run(SQL["record_stray_transaction"], row)
            key = f"{outcome.lower()}:{payment.mchid}:{payment.transaction_id}"
            self._alerts.write(tx, key, f"PAYMENT_{outcome}", facts)

    def alert(self, key: str, kind: str, details: Mapping[str, Any]) -> None:
        with self._service.service_transaction() as tx:
            self._alerts.write(tx, key, kind, details)

    def claim_due_orders(self, *, now: datetime, leased_until: datetime, limit: int) -> Sequence[Order]:
        with self._service.service_transaction() as tx:
            rows = tx.all(SQL["claim_due_orders"], {"now": now, "leased_until": leased_until, "limit": limit})
        return [_order(row) for row in rows]

    def postpone_order(self, order: Order, at: datetime) -> None:
        with self._service.service_transaction() as tx:
            tx.run(SQL["postpone_order"], {"tenant_id": order.tenant_id, "order_id": order.order_id, "at": at})

    def claim_due_refunds(self, *, now: datetime, leased_until: datetime, limit: int) -> Sequence[Refund]:
        with self._service.service_transaction() as tx:
            rows = tx.all(SQL["claim_due_refunds"], {"now": now, "leased_until": leased_until, "limit": limit})
        return [_refund(row) for row in rows]

    def postpone_refund(self, refund: Refund, at: datetime) -> None:
        with self._service.service_transaction() as tx:
            tx.run(SQL["postpone_refund"], {"tenant_id": refund.tenant_id, "refund_id": refund.refund_id, "at": at})


class PostgresBills:
    """The daily comparison, over all tenants."""

    def __init__(self, service_database: Database, reader: Database, alerts: Alerts) -> None:
        """`reader` serves the reports for operators; the comparison itself reads the writer."""
        self._service, self._reader, self._alerts = service_database, reader, alerts

    def done_days(self, first: date, last: date) -> set[date]:
        with self._service.service_transaction() as tx:
            rows = tx.all(SQL["bill_days"], {"first": first, "last": last})
        return {row["day"] for row in rows if row["status"] == "DONE"}

    def first_paid_at(self) -> datetime | None:
        with self._service.service_transaction() as tx:
            row = tx.one(SQL["first_paid_at"])
        return row["paid_at"] if row else None

    def keep_unfinished(self, day: date, status: str, error: str, now: datetime) -> None:
        with self._service.service_transaction() as tx:
            tx.run(SQL["keep_bill_day"], {**_day(day, status, now), "last_error": error})

    def records(self, bill: Bill, *, start: datetime, end: datetime) -> OurRecords:
        trade_nos = [payment.out_trade_no for payment in bill.payments]
        refund_nos = [refund.out_refund_no for refund in bill.refunds]
        transaction_ids = [payment.transaction_id for payment in bill.payments]
        with self._service.service_transaction() as tx:
            paid = [OurPayment(**row) for row in tx.all(SQL["payments_between"], {"start": start, "end": end})]
            orders = [OurPayment(**row) for row in tx.all(SQL["orders_of_trade_nos"], {"numbers": trade_nos})]
            refunds = tx.all(SQL["refunds_between"], {"start": start, "end": end})
            known_refunds = tx.all(SQL["known_refunds"], {"numbers": refund_nos})
            known = tx.all(SQL["known_payments"], {"ids": transaction_ids})
        credited = {row["transaction_id"] for row in known if row["outcome"] == Outcome.CREDITED}
        return OurRecords(
            paid={str(ours.transaction_id): ours for ours in paid},
            orders={ours.out_trade_no: ours for ours in orders},
            refunds={row["out_refund_no"]: _our_refund(row) for row in refunds},
            known_refunds={row["out_refund_no"]: _our_refund(row) for row in known_refunds},
            known_strays={
                row["transaction_id"]: row["amount_fen"]
                for row in known
                if row["outcome"] in {Outcome.OVERPAID, Outcome.ORPHAN, Outcome.FOREIGN}
                # One transaction may be reported for another merchant and still be credited to ours.
                and row["transaction_id"] not in credited
            },
        )

    def keep_findings(self, day: date, bill: Bill, findings: Sequence[Finding], now: datetime) -> None:
        """Store the findings and alert once per day, kind and order.

        A finding of an earlier comparison that this one does not have is marked as repaired.
        """
        with self._service.service_transaction() as tx:
            row = {
                **_day(day, "COMPARED", now),
                "payments": len(bill.payments),
                "refunds": len(bill.refunds),
                "total_fen": bill.total_fen,
                "differences": len(findings),
            }
            tx.run(SQL["keep_bill_day"], row)
            for finding in findings:
                tx.run(SQL["add_difference"], {**asdict(finding), "day": day, "now": now})
                facts = {
                    "day": day.isoformat(),
                    "reference": finding.reference,
                    "oursFen": finding.ours_fen,
                    "theirsFen": finding.theirs_fen,
                }
                key = f"bill:{day}:{finding.kind}:{finding.reference}"
                self._alerts.write(tx, key, f"BILL_{finding.kind}", facts)
            still = [f"{finding.kind}:{finding.reference}" for finding in findings]
            tx.run(SQL["resolve_differences"], {"day": day, "still": still, "now": now})

    def finish(self, day: date, now: datetime) -> None:
        with self._service.service_transaction() as tx:
            tx.run(SQL["finish_bill_day"], {"day": day, "now": now})

    def resolve(self, day: date, kind: Difference, reference: str, now: datetime) -> None:
        with self._service.service_transaction() as tx:
            tx.run(SQL["resolve_difference"], {"day": day, "kind": kind, "reference": reference, "now": now})

    def alert(self, key: str, kind: str, details: Mapping[str, Any]) -> None:
        with self._service.service_transaction() as tx:
            self._alerts.write(tx, key, kind, details)

    def days(self, *, before: date, limit: int) -> Sequence[Row]:
        """For the console: newest first."""
        with self._reader.service_transaction() as tx:
            return tx.all(SQL["bill_days_page"], {"before": before, "limit": limit})

    def differences(self, day: date, *, limit: int) -> Sequence[Row]:
        with self._reader.service_transaction() as tx:
            return tx.all(SQL["differences_of_day"], {"day": day, "limit": limit})


def _check_open(tx: Transaction, user_id: UUID, limits: OpenLimits) -> None:
    """Runs after the insert, so that a repeated request is not refused because of its own order."""
    counted = tx.one(SQL["count_open_orders"], {"user_id": user_id})
    assert counted is not None
    if counted["of_user"] > limits.per_user:
        raise TooManyOpen(limit=limits.per_user, scope="user")
    if counted["of_tenant"] > limits.per_tenant:
        raise TooManyOpen(limit=limits.per_tenant, scope="tenant")


def _day(day: date, status: str, now: datetime) -> dict[str, Any]:
    empty = dict.fromkeys(("payments", "refunds", "total_fen", "differences", "last_error"))
    return {"day": day, "status": status, "now": now, **empty}


def _our_refund(row: Row) -> OurRefund:
    return OurRefund(row["tenant_id"], row["order_id"], row["out_refund_no"], row["amount_fen"])


def _order(row: Row) -> Order:
    return Order(
        **{
            **row,
            "channel": Channel(row["channel"]),
            "status": OrderStatus(row["status"]),
            "close_reason": CloseReason(row["close_reason"]) if row["close_reason"] else None,
            "flag": Flag(row["flag"]) if row["flag"] else None,
        }
    )


def _refund(row: Row) -> Refund:
    return Refund(**{**row, "status": RefundStatus(row["status"])})
