"""The one function that turns a payment into points, whoever told us of it; and its mirror for refunds."""

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
    RefundNews,
    RefundStatus,
    Source,
    may_become,
)
from artiway.platform.clock import Clock
from artiway.points.model import Change, Kind
from artiway.points.service import PointsService


class OrderAct(Protocol):
    """An order under its row lock, in an open transaction of its tenant."""

    order: Order

    def complete(self, payment: Payment, now: datetime) -> None: ...

    def note(self, payment: Payment, outcome: Outcome, source: Source, now: datetime) -> bool:
        """Record what became of it. False where the transaction is credited already, for whichever order."""

    def flag(self, flag: Flag) -> None: ...

    def alert(self, key: str, kind: str, details: Mapping[str, Any]) -> None: ...

    def audit(self, actor_id: UUID, action: str, details: Mapping[str, Any]) -> None: ...

    def refunds(self) -> list[Refund]: ...

    def refund_of_key(self, idempotency_key: str, *, kept_since: datetime) -> Refund | None: ...

    def add_refund(self, refund: Refund, *, wechat_id: str | None, idempotency_key: str | None) -> bool:
        """Also reserves its amount and points on the order. False where the number is another order's refund.

        Raises KeyReused where the key is that of a refund of another order.
        """

    def move_refund(self, refund: Refund, news: RefundNews, now: datetime) -> None: ...

    def unreserve(self, refund: Refund) -> None: ...

    def debited(self, refund: Refund, points_taken: int) -> None: ...

    def settle_status(self) -> None:
        """Bring the order's status to what its refunds say."""


class Acts(Protocol):
    def by_trade_no(self, out_trade_no: str) -> Order | None: ...

    def act(self, tenant_id: UUID, order_id: UUID) -> AbstractContextManager[OrderAct]: ...

    def adopt(self, payment: Payment, order: Order) -> None:
        """Give a report of this transaction that was not credited to the order that it names now."""

    def keep_stray(self, payment: Payment, outcome: Outcome, source: Source, now: datetime) -> None:
        """Store a payment for no order of ours, and alert once."""

    def alert(self, key: str, kind: str, details: Mapping[str, Any]) -> None: ...


class Locks(Protocol):
    def hold(self, name: str, *, ttl_s: float, wait_s: float = 0) -> AbstractContextManager[object]: ...


class CreditService:
    """Credits a payment exactly once. The unique ledger key and the order's row make it right; the lock saves work."""

    def __init__(
        self, acts: Acts, points: PointsService, locks: Locks, clock: Clock, *, lock_ttl_s: float, lock_wait_s: float
    ) -> None:
        self._acts, self._points, self._locks, self._clock = acts, points, locks, clock
        self._lock_ttl_s, self._lock_wait_s = lock_ttl_s, lock_wait_s

    def record(self, payment: Payment, source: Source) -> Outcome:
        """Bring the order to what WeChat says of it. Returns only after the commit."""
        if not payment.is_paid:
            return Outcome.UNPAID
        order = self._acts.by_trade_no(payment.out_trade_no)
        if order is None:
            self._acts.keep_stray(payment, Outcome.ORPHAN, source, self._clock.now())
            return Outcome.ORPHAN
        if (payment.mchid, payment.appid) != (order.mchid, order.appid):
            self._acts.keep_stray(payment, Outcome.FOREIGN, source, self._clock.now())
            return Outcome.FOREIGN
        with self._locked(order):
            if payment.pays(order):
                self._acts.adopt(payment, order)
            with self._acts.act(order.tenant_id, order.order_id) as act:
                return self._credit(act, payment, source)

    def _credit(self, act: OrderAct, payment: Payment, source: Source) -> Outcome:
        order, now = act.order, self._clock.now()
        facts = _facts(order, payment)
        if order.transaction_id == payment.transaction_id:
            return Outcome.ALREADY
        if not payment.pays(order):
            act.note(payment, Outcome.MISMATCH, source, now)
            act.flag(Flag.MISMATCH)
            act.alert(f"mismatch:{payment.transaction_id}", "PAYMENT_MISMATCH", facts)
            return Outcome.MISMATCH
        outcome = Outcome.CREDITED if order.transaction_id is None else Outcome.OVERPAID
        if not act.note(payment, outcome, source, now):
            # The money paid for another order. This one stays as it is until a payment of its own arrives.
            act.flag(Flag.MISMATCH)
            key = f"another-order:{payment.transaction_id}:{order.order_id.hex}"
            act.alert(key, "PAYMENT_OF_ANOTHER_ORDER", facts)
            return Outcome.MISMATCH
        if outcome is Outcome.OVERPAID:
            act.flag(Flag.OVERPAID)
            act.alert(f"overpaid:{payment.transaction_id}", "PAYMENT_TWICE", facts)
            return outcome
        act.complete(payment, now)
        reference = to_wire("ord", order.order_id)
        change = Change(order.user_id, Kind.RECHARGE, order.points, reference, payment.ledger_key)
        if self._points.credit(tenant_id=order.tenant_id, change=change).reference != reference:
            raise RuntimeError("the ledger has this payment for another order")  # undoes all of the above
        if not order.status.is_open:
            act.alert(f"late:{payment.transaction_id}", "PAYMENT_AFTER_CLOSE", facts)
        if order.openid and payment.payer_openid and order.openid != payment.payer_openid:
            act.alert(f"payer:{payment.transaction_id}", "PAYMENT_BY_ANOTHER", facts)
        for refund in act.refunds():  # begun at WeChat and heard of before the payment
            if not refund.is_debited:
                self._take_points(act, refund)
                act.settle_status()
        return Outcome.CREDITED

    def record_refund(self, news: RefundNews) -> None:
        """Bring a refund to what WeChat says of it, whether we began it or not."""
        order = self._acts.by_trade_no(news.out_trade_no)
        if order is None:
            facts = {"outTradeNo": news.out_trade_no, "outRefundNo": news.out_refund_no, "amountFen": news.amount_fen}
            self._acts.alert(f"orphan-refund:{news.out_refund_no}", "REFUND_WITHOUT_ORDER", facts)
            return
        with self._locked(order), self._acts.act(order.tenant_id, order.order_id) as act:
            known = next((one for one in act.refunds() if one.out_refund_no == news.out_refund_no), None)
            if not news.is_about(act.order, known):
                self._alert_mismatch(act, news, known)
                return
            if known is None:
                self._add_external(act, news)
            elif may_become(known.status, news.status):
                self._move(act, known, news)
            act.settle_status()

    def _move(self, act: OrderAct, refund: Refund, news: RefundNews) -> None:
        act.move_refund(refund, news, self._clock.now())
        facts = _refund_facts(refund)
        if news.status is RefundStatus.ABNORMAL:
            act.alert(f"abnormal:{refund.out_refund_no}", "REFUND_ABNORMAL", facts)
        if news.status is RefundStatus.CLOSED:
            act.unreserve(refund)
            act.alert(f"refund-closed:{refund.out_refund_no}", "REFUND_CLOSED", facts)
            if refund.points_taken:
                change = self._change(act.order, refund, refund.points_taken, f"refund:{refund.refund_id}:return")
                self._points.credit(tenant_id=refund.tenant_id, change=change)

    def _add_external(self, act: OrderAct, news: RefundNews) -> None:
        """The money has left by another door. The points follow as far as they are still there."""
        order, now = act.order, self._clock.now()
        amount_fen = min(news.amount_fen, order.amount_fen - order.refunded_fen)
        if news.status is RefundStatus.CLOSED:
            return
        if amount_fen <= 0:  # all of it is refunded already, by our account
            self._alert_mismatch(act, news, None)
            return
        refund = Refund(
            tenant_id=order.tenant_id,
            refund_id=new_id(),
            order_id=order.order_id,
            out_refund_no=news.out_refund_no,
            amount_fen=amount_fen,
            points=order.points_for(amount_fen),
            points_taken=0,
            is_debited=False,
            is_external=True,
            reason="begun at WeChat",
            request_body="",
            status=news.status,
            started_at=news.started_at or now,
            request_hash=None,
            query_tries=0,
        )
        if not act.add_refund(refund, wechat_id=news.wechat_id, idempotency_key=None):
            self._alert_mismatch(act, news, None)
            return
        act.alert(f"external-refund:{news.out_refund_no}", "REFUND_BEGUN_ELSEWHERE", _refund_facts(refund))
        if order.transaction_id is not None:
            self._take_points(act, refund)

    @staticmethod
    def _alert_mismatch(act: OrderAct, news: RefundNews, refund: Refund | None) -> None:
        """Changes nothing: a later report that agrees, or a query, still can. Once for each different report."""
        facts = {
            "orderId": to_wire("ord", act.order.order_id),
            "outRefundNo": news.out_refund_no,
            "status": news.status,
            "mchid": news.mchid,
            "transactionId": news.transaction_id,
            "refundFen": news.amount_fen,
            "totalFen": news.total_fen,
            "currency": news.currency,
            "ourRefundFen": None if refund is None else refund.amount_fen,
            "ourTotalFen": act.order.amount_fen,
        }
        said = ":".join(
            str(facts[name]) for name in ("status", "mchid", "transactionId", "refundFen", "totalFen", "currency")
        )
        act.alert(f"refund-mismatch:{act.order.order_id.hex}:{news.out_refund_no}:{said}", "REFUND_MISMATCH", facts)

    def _take_points(self, act: OrderAct, refund: Refund) -> None:
        change = self._change(act.order, refund, refund.points, f"refund:{refund.refund_id}")
        taken = self._points.debit_at_most(tenant_id=refund.tenant_id, change=change) if refund.points else 0
        act.debited(refund, taken)
        if taken < refund.points:
            facts = {**_refund_facts(refund), "missingPoints": refund.points - taken}
            act.alert(f"short:{refund.out_refund_no}", "REFUND_POINTS_SPENT", facts)

    @staticmethod
    def _change(order: Order, refund: Refund, amount: int, key: str) -> Change:
        return Change(order.user_id, Kind.REFUND, amount, to_wire("ref", refund.refund_id), key)

    def _locked(self, order: Order) -> AbstractContextManager[object]:
        """The lock, held already: one that cannot be had is found out before the work begins. Raises LockTaken."""
        with ExitStack() as stack:
            lock = self._locks.hold(f"order:{order.out_trade_no}", ttl_s=self._lock_ttl_s, wait_s=self._lock_wait_s)
            # Without Redis the row lock and the unique key do.
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
