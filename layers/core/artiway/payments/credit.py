"""Turns a payment into points, whether a callback, a query or the bill reported it, and does the same for refunds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from artiway.errors import Unavailable
from artiway.ids import new_id, to_wire
from artiway.payments.model import (
    Flag,
    Order,
    Outcome,
    Payment,
    Refund,
    RefundReport,
    RefundStatus,
    Source,
    may_become,
)
from artiway.platform.clock import Clock
from artiway.points.model import Change, Kind
from artiway.points.service import PointsService


class LockedOrder(Protocol):
    """An order under its row lock, in an open transaction of its tenant."""

    order: Order

    def complete(self, payment: Payment, now: datetime) -> None: ...

    def record_transaction(self, payment: Payment, outcome: Outcome, source: Source, now: datetime) -> bool:
        """Store the transaction with its outcome. False if it is credited already, to this or another order."""

    def flag(self, flag: Flag) -> None: ...

    def alert(self, key: str, kind: str, details: Mapping[str, Any]) -> None: ...

    def audit(self, actor_id: UUID, action: str, details: Mapping[str, Any]) -> None: ...

    def refunds(self) -> list[Refund]: ...

    def refund_of_key(self, idempotency_key: str, *, kept_since: datetime) -> Refund | None: ...

    def add_refund(self, refund: Refund, *, wechat_id: str | None, idempotency_key: str | None) -> bool:
        """Also reserves its amount and points on the order. False if another order has a refund with this number.

        Raises KeyReused if the key belongs to a refund of another order.
        """

    def move_refund(self, refund: Refund, report: RefundReport, now: datetime) -> None: ...

    def release_refund(self, refund: Refund) -> None: ...

    def record_debit(self, refund: Refund, points_taken: int) -> None: ...

    def update_status(self) -> None:
        """Set the order's status from the states of its refunds."""


class LockableOrders(Protocol):
    def lock(self, tenant_id: UUID, order_id: UUID) -> AbstractContextManager[LockedOrder]:
        """Open a transaction of the tenant and take the order's row lock. Raises NotFound."""


class OrderStore(LockableOrders, Protocol):
    def by_trade_no(self, out_trade_no: str) -> Order | None: ...

    def reassign(self, payment: Payment, order: Order) -> None:
        """Move the row of a transaction that was not credited to the order that the payment names now."""

    def store_stray(self, payment: Payment, outcome: Outcome, source: Source, now: datetime) -> None:
        """Store a payment that belongs to no order, and alert once."""

    def alert(self, key: str, kind: str, details: Mapping[str, Any]) -> None: ...


class Locks(Protocol):
    def hold(self, name: str, *, ttl_s: float, wait_s: float = 0) -> AbstractContextManager[object]: ...


class CreditService:
    """Credits a payment exactly once.

    The unique ledger key and the order's row lock guarantee that; the Redis lock only saves work.
    """

    def __init__(
        self,
        orders: OrderStore,
        points: PointsService,
        locks: Locks,
        clock: Clock,
        *,
        lock_ttl_s: float,
        lock_wait_s: float,
    ) -> None:
        self._orders, self._points, self._locks, self._clock = orders, points, locks, clock
        self._lock_ttl_s, self._lock_wait_s = lock_ttl_s, lock_wait_s

    def record(self, payment: Payment, source: Source) -> Outcome:
        """Apply a payment that WeChat reported to its order. Returns after the commit."""
        if not payment.is_paid:
            return Outcome.UNPAID
        order = self._orders.by_trade_no(payment.out_trade_no)
        if order is None:
            self._orders.store_stray(payment, Outcome.ORPHAN, source, self._clock.now())
            return Outcome.ORPHAN
        if (payment.mchid, payment.appid) != (order.mchid, order.appid):
            self._orders.store_stray(payment, Outcome.FOREIGN, source, self._clock.now())
            return Outcome.FOREIGN
        with self._locked(order):
            if payment.pays(order):
                self._orders.reassign(payment, order)
            with self._orders.lock(order.tenant_id, order.order_id) as locked:
                return self._credit(locked, payment, source)

    def _credit(self, locked: LockedOrder, payment: Payment, source: Source) -> Outcome:
        order, now = locked.order, self._clock.now()
        facts = _facts(order, payment)
        if order.transaction_id == payment.transaction_id:
            return Outcome.ALREADY
        if not payment.pays(order):
            locked.record_transaction(payment, Outcome.MISMATCH, source, now)
            locked.flag(Flag.MISMATCH)
            locked.alert(f"mismatch:{payment.transaction_id}", "PAYMENT_MISMATCH", facts)
            return Outcome.MISMATCH
        outcome = Outcome.CREDITED if order.transaction_id is None else Outcome.OVERPAID
        if not locked.record_transaction(payment, outcome, source, now):
            # The transaction paid for another order. This order waits for a payment of its own.
            locked.flag(Flag.MISMATCH)
            key = f"another-order:{payment.transaction_id}:{order.order_id.hex}"
            locked.alert(key, "PAYMENT_OF_ANOTHER_ORDER", facts)
            return Outcome.MISMATCH
        if outcome is Outcome.OVERPAID:
            locked.flag(Flag.OVERPAID)
            locked.alert(f"overpaid:{payment.transaction_id}", "PAYMENT_TWICE", facts)
            return outcome
        locked.complete(payment, now)
        reference = to_wire("ord", order.order_id)
        change = Change(order.user_id, Kind.RECHARGE, order.points, reference, payment.ledger_key)
        if self._points.credit(tenant_id=order.tenant_id, change=change).reference != reference:
            raise RuntimeError("the ledger has this payment for another order")  # rolls the transaction back
        if not order.status.is_open:
            locked.alert(f"late:{payment.transaction_id}", "PAYMENT_AFTER_CLOSE", facts)
        if order.openid and payment.payer_openid and order.openid != payment.payer_openid:
            locked.alert(f"payer:{payment.transaction_id}", "PAYMENT_BY_ANOTHER", facts)
        for refund in locked.refunds():  # refunds made at WeChat whose reports arrived before the payment
            if not refund.is_debited:
                self._take_points(locked, refund)
                locked.update_status()
        return Outcome.CREDITED

    def record_refund(self, report: RefundReport) -> None:
        """Apply a refund that WeChat reported, also one that was made in WeChat's own console."""
        order = self._orders.by_trade_no(report.out_trade_no)
        if order is None:
            facts = {
                "outTradeNo": report.out_trade_no,
                "outRefundNo": report.out_refund_no,
                "amountFen": report.amount_fen,
            }
            self._orders.alert(f"orphan-refund:{report.out_refund_no}", "REFUND_WITHOUT_ORDER", facts)
            return
        with self._locked(order), self._orders.lock(order.tenant_id, order.order_id) as locked:
            known = next((one for one in locked.refunds() if one.out_refund_no == report.out_refund_no), None)
            if not report.is_about(locked.order, known):
                self._alert_mismatch(locked, report, known)
                return
            if known is None:
                self._add_external(locked, report)
            elif may_become(known.status, report.status):
                self._move(locked, known, report)
            locked.update_status()

    def _move(self, locked: LockedOrder, refund: Refund, report: RefundReport) -> None:
        locked.move_refund(refund, report, self._clock.now())
        facts = _refund_facts(refund)
        if report.status is RefundStatus.ABNORMAL:
            locked.alert(f"abnormal:{refund.out_refund_no}", "REFUND_ABNORMAL", facts)
        if report.status is RefundStatus.CLOSED:
            locked.release_refund(refund)
            locked.alert(f"refund-closed:{refund.out_refund_no}", "REFUND_CLOSED", facts)
            if refund.points_taken:
                change = self._change(locked.order, refund, refund.points_taken, f"refund:{refund.refund_id}:return")
                self._points.credit(tenant_id=refund.tenant_id, change=change)

    def _add_external(self, locked: LockedOrder, report: RefundReport) -> None:
        """Store a refund that was made at WeChat. Its points are debited as far as the balance allows."""
        order, now = locked.order, self._clock.now()
        amount_fen = min(report.amount_fen, order.amount_fen - order.refunded_fen)
        if report.status is RefundStatus.CLOSED:
            return
        if amount_fen <= 0:  # our refunds already cover the whole amount
            self._alert_mismatch(locked, report, None)
            return
        refund = Refund(
            tenant_id=order.tenant_id,
            refund_id=new_id(),
            order_id=order.order_id,
            out_refund_no=report.out_refund_no,
            amount_fen=amount_fen,
            points=order.points_for(amount_fen),
            points_taken=0,
            is_debited=False,
            is_external=True,
            reason="begun at WeChat",
            request_body="",
            status=report.status,
            started_at=report.started_at or now,
            request_hash=None,
            query_tries=0,
        )
        if not locked.add_refund(refund, wechat_id=report.wechat_id, idempotency_key=None):
            self._alert_mismatch(locked, report, None)
            return
        locked.alert(f"external-refund:{report.out_refund_no}", "REFUND_BEGUN_ELSEWHERE", _refund_facts(refund))
        if order.transaction_id is not None:
            self._take_points(locked, refund)

    @staticmethod
    def _alert_mismatch(locked: LockedOrder, report: RefundReport, refund: Refund | None) -> None:
        """Alert once for each different report and change nothing: a later report or a query may agree."""
        facts = {
            "orderId": to_wire("ord", locked.order.order_id),
            "outRefundNo": report.out_refund_no,
            "status": report.status,
            "mchid": report.mchid,
            "transactionId": report.transaction_id,
            "refundFen": report.amount_fen,
            "totalFen": report.total_fen,
            "currency": report.currency,
            "ourRefundFen": None if refund is None else refund.amount_fen,
            "ourTotalFen": locked.order.amount_fen,
        }
        reported = ":".join(
            str(facts[name]) for name in ("status", "mchid", "transactionId", "refundFen", "totalFen", "currency")
        )
        locked.alert(
            f"refund-mismatch:{locked.order.order_id.hex}:{report.out_refund_no}:{reported}", "REFUND_MISMATCH", facts
        )

    def _take_points(self, locked: LockedOrder, refund: Refund) -> None:
        change = self._change(locked.order, refund, refund.points, f"refund:{refund.refund_id}")
        taken = self._points.debit_at_most(tenant_id=refund.tenant_id, change=change) if refund.points else 0
        locked.record_debit(refund, taken)
        if taken < refund.points:
            facts = {**_refund_facts(refund), "missingPoints": refund.points - taken}
            locked.alert(f"short:{refund.out_refund_no}", "REFUND_POINTS_SPENT", facts)

    @staticmethod
    def _change(order: Order, refund: Refund, amount: int, key: str) -> Change:
        return Change(order.user_id, Kind.REFUND, amount, to_wire("ref", refund.refund_id), key)

    def _locked(self, order: Order) -> AbstractContextManager[object]:
        """Take the lock before any database work, so that a taken lock fails early. Raises LockTaken."""
        with ExitStack() as stack:
            lock = self._locks.hold(f"order:{order.out_trade_no}", ttl_s=self._lock_ttl_s, wait_s=self._lock_wait_s)
            # Without Redis the row lock and the unique key are enough.
            with suppress(Unavailable):
                stack.enter_context(lock)
            return stack.pop_all()


def _facts(order: Order, payment: Payment) -> dict[str, Any]:
    return {
        "orderId": to_wire("ord", order.order_id),
        "transactionId": payment.transaction_id,
        "orderFen": order.amount_fen,
        "paidFen": payment.amount_fen,
        "currency": payment.currency,
        "status": order.status,
    }


def _refund_facts(refund: Refund) -> dict[str, Any]:
    return {
        "orderId": to_wire("ord", refund.order_id),
        "refundId": to_wire("ref", refund.refund_id),
        "outRefundNo": refund.out_refund_no,
        "amountFen": refund.amount_fen,
        "points": refund.points,
    }
