"""Orders: bought, paid for, closed, refunded. What WeChat says decides; what we do not know we ask again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from artiway.errors import Conflict, NotFound, Refused
from artiway.idempotency.model import KeyReused
from artiway.ids import new_id, to_wire
from artiway.payments.credit import CreditService, OrderAct
from artiway.payments.model import (
    Channel,
    CloseReason,
    GatewayRefused,
    OpenLimits,
    Order,
    OrderNotOpen,
    OrderNotPaid,
    OrderStatus,
    OutcomeUnknown,
    Package,
    Payment,
    PaymentAway,
    PrepayRefused,
    Refund,
    RefundNews,
    RefundStatus,
    RefundTooLarge,
    Source,
)
from artiway.platform.clock import Clock
from artiway.points.model import Change, Kind
from artiway.points.service import PointsService

PREPAY_TRIES = 2
KEY_LIFE = timedelta(hours=24)
_UNHEARD_OF = frozenset({"ORDERNOTEXIST", "RESOURCENOTEXISTS"})


class Gateway(Protocol):
    """WeChat Pay. Every call returns what was verifiably said, or raises GatewayRefused or OutcomeUnknown."""

    @property
    def identity(self) -> tuple[str, str]: ...

    def prepay_body(self, *, order: Order, description: str, notify_url: str, client_address: str) -> str: ...

    def prepay(self, order: Order) -> tuple[str, datetime]: ...

    def query(self, out_trade_no: str) -> Payment: ...

    def close(self, out_trade_no: str) -> None: ...

    def refund_body(
        self, *, order: Order, out_refund_no: str, amount_fen: int, reason: str, notify_url: str
    ) -> str: ...

    def refund(self, request_body: str) -> RefundNews: ...

    def query_refund(self, out_refund_no: str) -> RefundNews: ...


class Orders(Protocol):
    """Each method is one transaction."""

    def add(self, order: Order, *, idempotency_key: str, next_query_at: datetime, limits: OpenLimits) -> Order:
        """Store it. Returns the order that is stored under the key, which may be an older one. Raises TooManyOpen."""

    def order(self, tenant_id: UUID, order_id: UUID) -> Order | None: ...

    def page(self, tenant_id: UUID, *, user_id: UUID | None, before: UUID | None, limit: int) -> Sequence[Order]: ...

    def keep_prepay(self, order: Order, code: str, until: datetime, *, now: datetime) -> None:
        """Unless the order has a code that still works."""

    def close(self, order: Order, reason: CloseReason) -> bool:
        """False where it is no longer open: a payment wins."""

    def claim_poll(self, order: Order, *, now: datetime, spacing: timedelta) -> bool:
        """False where it is not open, or was asked for a moment ago."""

    def act(self, tenant_id: UUID, order_id: UUID) -> AbstractContextManager[OrderAct]: ...


class OrderService:
    def __init__(
        self,
        orders: Orders,
        gateway: Gateway,
        credit: CreditService,
        points: PointsService,
        clock: Clock,
        *,
        packages: Sequence[Package],
        order_life_s: int,
        expiry_grace_s: int,
        query_after_s: int,
        poll_spacing_s: int,
        open_limits: OpenLimits,
    ) -> None:
        self._orders, self._gateway, self._credit, self._points, self._clock = orders, gateway, credit, points, clock
        self.packages, self._open_limits = packages, open_limits
        self._life = timedelta(seconds=order_life_s)
        self._grace = timedelta(seconds=expiry_grace_s)
        self._query_after = timedelta(seconds=query_after_s)
        self._poll_spacing = timedelta(seconds=poll_spacing_s)

    def order(self, *, tenant_id: UUID, order_id: UUID, user_id: UUID | None) -> Order:
        """`user_id` limits it to one person's own orders."""
        order = self._orders.order(tenant_id, order_id)
        if order is None or (user_id is not None and order.user_id != user_id):
            raise NotFound("there is no such order")
        return order

    def page(self, *, tenant_id: UUID, user_id: UUID | None, before: UUID | None, limit: int) -> Sequence[Order]:
        return self._orders.page(tenant_id, user_id=user_id, before=before, limit=limit)

    # --- buying

    def create(
        self,
        *,
        tenant_id: UUID,
        user_id: UUID,
        package_id: str,
        channel: Channel,
        openid: str | None,
        client_address: str,
        notify_url: str,
        idempotency_key: str,
        request_hash: str,
    ) -> Order:
        """The row is committed before WeChat is asked, so that a payment that beats the answer finds its order."""
        package = next((one for one in self.packages if one.package_id == package_id), None)
        if package is None:
            raise _invalid("packageId", "there is no such package")
        if channel is Channel.JSAPI and not openid:
            raise _invalid("openid", "a mini program's payment needs its payer")
        now, order_id = self._clock.now(), new_id()
        mchid, appid = self._gateway.identity
        order = Order(
            tenant_id=tenant_id,
            order_id=order_id,
            user_id=user_id,
            out_trade_no=order_id.hex,
            mchid=mchid,
            appid=appid,
            package_id=package.package_id,
            amount_fen=package.amount_fen,
            points=package.points,
            channel=channel,
            openid=openid if channel is Channel.JSAPI else None,
            status=OrderStatus.CREATED,
            close_reason=None,
            flag=None,
            prepay_body="",
            prepay_code=None,
            prepay_until=None,
            created_at=now,
            expires_at=now + self._life,
            transaction_id=None,
            paid_at=None,
            refunded_fen=0,
            refunded_points=0,
            request_hash=request_hash,
            query_tries=0,
        )
        body = self._gateway.prepay_body(
            order=order,
            description=f"Artiway {package.points} points",
            notify_url=notify_url,
            client_address=client_address,
        )
        stored = self._orders.add(
            replace(order, prepay_body=body),
            idempotency_key=idempotency_key,
            next_query_at=now + self._query_after,
            limits=self._open_limits,
        )
        if stored.request_hash != request_hash:
            raise KeyReused
        return self._prepaid(stored)

    def pay_again(self, *, tenant_id: UUID, order_id: UUID, user_id: UUID) -> Order:
        """The same code while it lives, a fresh one for the same number after that. Never a second number."""
        order = self.order(tenant_id=tenant_id, order_id=order_id, user_id=user_id)
        if not order.status.is_open or self._clock.now() >= order.expires_at:
            raise OrderNotOpen("the order cannot be paid any more", status=order.status)
        return self._prepaid(order)

    def _prepaid(self, order: Order) -> Order:
        now = self._clock.now()
        has_code = order.prepay_code is not None and order.prepay_until is not None and now < order.prepay_until
        if has_code or not order.status.is_open or now >= order.expires_at:
            return order
        for is_last_try in [False] * (PREPAY_TRIES - 1) + [True]:
            try:
                code, until = self._gateway.prepay(order)
            except OutcomeUnknown as unknown:
                # The same number with the same bytes is the same order there, however often it is sent.
                if is_last_try:
                    raise PaymentAway(str(unknown)) from unknown
            except GatewayRefused as refusal:
                return self._refused(order, refusal)
            else:
                self._orders.keep_prepay(order, code, until, now=now)
                break
        return self._again(order)

    def _refused(self, order: Order, refusal: GatewayRefused) -> Order:
        if refusal.code in {"ORDERPAID", "OUTTRADENOUSED", "ORDERCLOSED"}:
            self.bring_up_to_date(order)
            return self._again(order)
        if refusal.code in {"PARAMERROR", "INVALIDREQUEST"}:
            self._orders.close(order, CloseReason.REFUSED)
            raise PrepayRefused("the payment service does not take this order", reason=refusal.code)
        raise PaymentAway(refusal.code)

    # --- asking, closing

    def poll(self, *, tenant_id: UUID, order_id: UUID, user_id: UUID) -> Order:
        """For the page that a payer returns to: asks WeChat, seldom. The page itself grants nothing."""
        order = self.order(tenant_id=tenant_id, order_id=order_id, user_id=user_id)
        if not self._orders.claim_poll(order, now=self._clock.now(), spacing=self._poll_spacing):
            return order
        try:
            self.bring_up_to_date(order)
        except OutcomeUnknown:
            return order
        return self._again(order)

    def close(self, *, tenant_id: UUID, order_id: UUID, user_id: UUID) -> Order:
        """Close at WeChat first, then here. A payment that was faster wins."""
        order = self.order(tenant_id=tenant_id, order_id=order_id, user_id=user_id)
        if order.status is OrderStatus.CLOSED:
            return order
        if not order.status.is_open:
            raise OrderNotOpen("the order is paid", status=order.status)
        try:
            self.close_there_and_here(order, CloseReason.REQUESTED)
        except OutcomeUnknown as unknown:
            raise PaymentAway(str(unknown)) from unknown
        return self._again(order)

    def bring_up_to_date(self, order: Order) -> None:
        """Ask WeChat about an open order and act on the answer. Raises OutcomeUnknown."""
        self.apply(order, self.ask(order))

    def ask(self, order: Order) -> Payment | None:
        """What WeChat says of an order; None where it has never heard of it. Writes nothing."""
        try:
            return self._gateway.query(order.out_trade_no)
        except GatewayRefused as refusal:
            if refusal.code in _UNHEARD_OF:
                return None
            raise OutcomeUnknown(refusal.code) from refusal

    def apply(self, order: Order, payment: Payment | None) -> None:
        """Bring an open order to what WeChat says. Whatever is written here yields to a payment."""
        is_over = self._clock.now() >= order.expires_at + self._grace
        if payment is None:
            if is_over:  # before that, the prepay may still be on its way
                self._orders.close(order, CloseReason.NEVER_PREPAID)
        elif payment.is_paid:
            self._credit.record(payment, Source.QUERY)
        elif payment.trade_state == "CLOSED":
            self._orders.close(order, CloseReason.CLOSED_THERE)
        elif is_over:
            self.close_there_and_here(order, CloseReason.EXPIRED)

    def close_there_and_here(self, order: Order, reason: CloseReason) -> None:
        """Never here alone: what is open at WeChat can be paid."""
        try:
            self._gateway.close(order.out_trade_no)
        except GatewayRefused as refusal:
            if refusal.code == "ORDERPAID":
                self._credit.record(self._gateway.query(order.out_trade_no), Source.QUERY)
                return
            if refusal.code not in _UNHEARD_OF | {"ORDERCLOSED"}:
                raise OutcomeUnknown(refusal.code) from refusal
        self._orders.close(order, reason)

    # --- refunds

    def refund(
        self,
        *,
        tenant_id: UUID,
        order_id: UUID,
        actor_id: UUID,
        amount_fen: int,
        reason: str,
        notify_url: str,
        idempotency_key: str,
        request_hash: str,
    ) -> Refund:
        """Take the points back and have the money returned. Points go first, so that they are not spent meanwhile."""
        with self._orders.act(tenant_id, order_id) as act:
            # Under the order's lock: of two requests with one key the second finds the first one's refund.
            stored = act.refund_of_key(idempotency_key, kept_since=self._clock.now() - KEY_LIFE)
            if stored is None:
                stored = self._reserve(act, amount_fen, reason, notify_url, idempotency_key, request_hash)
                act.audit(actor_id, "order.refund", {"amountFen": amount_fen, "reason": reason})
            elif stored.request_hash != request_hash:
                raise KeyReused
        if stored.status is RefundStatus.REQUESTED:
            with suppress(Conflict):  # the order is locked elsewhere: the refund is stored, and the sweep sends it
                self.send_refund(stored)
        return next(one for one in self._refunds(stored) if one.refund_id == stored.refund_id)

    def _reserve(
        self, act: OrderAct, amount_fen: int, reason: str, notify_url: str, idempotency_key: str, request_hash: str
    ) -> Refund:
        order, now, refund_id = act.order, self._clock.now(), new_id()
        if order.transaction_id is None:
            raise OrderNotPaid("only what was paid can be refunded", status=order.status)
        left_fen = order.amount_fen - order.refunded_fen
        if amount_fen > left_fen:
            raise RefundTooLarge("that is more than is left of the payment", leftFen=left_fen)
        body = self._gateway.refund_body(
            order=order, out_refund_no=refund_id.hex, amount_fen=amount_fen, reason=reason, notify_url=notify_url
        )
        points = order.points_for(amount_fen)
        refund = Refund(
            tenant_id=order.tenant_id,
            refund_id=refund_id,
            order_id=order.order_id,
            out_refund_no=refund_id.hex,
            amount_fen=amount_fen,
            points=points,
            points_taken=points,
            is_debited=True,
            is_external=False,
            reason=reason,
            request_body=body,
            status=RefundStatus.REQUESTED,
            started_at=now,
            request_hash=request_hash,
            query_tries=0,
        )
        if points:
            change = Change(order.user_id, Kind.REFUND, points, to_wire("ref", refund_id), f"refund:{refund_id}")
            self._points.debit(tenant_id=order.tenant_id, change=change)
        act.add_refund(refund, wechat_id=None, idempotency_key=idempotency_key)
        act.settle_status()
        return refund

    def send_refund(self, refund: Refund) -> None:
        """Ask for it, always with the same number. What is not answered, the sweep asks for again."""
        try:
            self._credit.record_refund(self._gateway.refund(refund.request_body))
        except OutcomeUnknown:
            return
        except GatewayRefused:
            self._look_after(refund)

    def follow_refund(self, refund: Refund) -> None:
        """Ask how a refund is doing; send it again if WeChat has never heard of it. Raises OutcomeUnknown."""
        try:
            self._credit.record_refund(self._gateway.query_refund(refund.out_refund_no))
        except GatewayRefused as refusal:
            if refusal.code != "RESOURCENOTEXISTS" or refund.is_external:
                raise OutcomeUnknown(refusal.code) from refusal
            try:
                self._credit.record_refund(self._gateway.refund(refund.request_body))
            except GatewayRefused as again:
                if again.code in {"NOTENOUGH", "RULELIMIT"}:  # our own account at WeChat is short; it may fill up
                    raise OutcomeUnknown(again.code) from again
                self._give_up(refund)

    def _look_after(self, refund: Refund) -> None:
        """It was refused: was it because it is there already?"""
        try:
            self.follow_refund(refund)
        except OutcomeUnknown:
            return

    def _give_up(self, refund: Refund) -> None:
        order = self._orders.order(refund.tenant_id, refund.order_id)
        assert order is not None
        closed = RefundNews(order.out_trade_no, refund.out_refund_no, None, RefundStatus.CLOSED, refund.amount_fen)
        self._credit.record_refund(closed)

    def _refunds(self, refund: Refund) -> list[Refund]:
        with self._orders.act(refund.tenant_id, refund.order_id) as act:
            return act.refunds()

    def _again(self, order: Order) -> Order:
        stored = self._orders.order(order.tenant_id, order.order_id)
        assert stored is not None
        return stored


def _invalid(field: str, reason: str) -> Refused:
    return Refused("the request is not valid", fields=[{"field": field, "reason": reason}])
