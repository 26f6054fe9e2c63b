"""Orders: create, pay, close, refund. WeChat decides whether an order is paid; an unknown outcome is queried again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from artiway.errors import Conflict, NotFound, Refused
from artiway.idempotency.model import KeyReused
from artiway.ids import new_id, to_wire
from artiway.payments.credit import CreditService, LockableOrders, LockedOrder
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
    Receipt,
    Refund,
    RefundLine,
    RefundReport,
    RefundStatus,
    RefundTooLarge,
    Source,
)
from artiway.platform.clock import Clock
from artiway.points.model import Change, Kind
from artiway.points.service import PointsService

PREPAY_TRIES = 2
RECEIPT_REFUNDS = 100
KEY_LIFE = timedelta(hours=24)
_NOT_KNOWN = frozenset({"ORDERNOTEXIST", "RESOURCENOTEXISTS"})


class Gateway(Protocol):
    """WeChat Pay. Every call returns a verified answer, or raises GatewayRefused or OutcomeUnknown."""

    @property
    def identity(self) -> tuple[str, str]: ...

    def prepay_body(self, *, order: Order, description: str, notify_url: str, client_address: str) -> str: ...

    def prepay(self, order: Order) -> tuple[str, datetime]: ...

    def query(self, out_trade_no: str) -> Payment: ...

    def close(self, out_trade_no: str) -> None: ...

    def refund_body(
        self, *, order: Order, out_refund_no: str, amount_fen: int, reason: str, notify_url: str
    ) -> str: ...

    def refund(self, request_body: str) -> RefundReport: ...

    def query_refund(self, out_refund_no: str) -> RefundReport: ...


class Orders(LockableOrders, Protocol):
    """Each method is one transaction."""

    def add(self, order: Order, *, idempotency_key: str, next_query_at: datetime, limits: OpenLimits) -> Order:
        """Store the order. Returns the order of the key, which may be an earlier one. Raises TooManyOpen."""

    def order(self, tenant_id: UUID, order_id: UUID) -> Order | None: ...

    def page(self, tenant_id: UUID, *, user_id: UUID | None, before: UUID | None, limit: int) -> Sequence[Order]: ...

    def refunds(
        self, tenant_id: UUID, *, user_id: UUID | None, order_id: UUID | None, before: UUID | None, limit: int
    ) -> Sequence[RefundLine]: ...

    def buyer(self, tenant_id: UUID, user_id: UUID) -> tuple[str, str]:
        """The names of the tenant and of the user."""

    def keep_prepay(self, order: Order, code: str, until: datetime, *, now: datetime) -> None:
        """Store the code, unless the order has one that is still valid."""

    def close(self, order: Order, reason: CloseReason) -> bool:
        """False if the order is no longer open: a payment comes first."""

    def claim_poll(self, order: Order, *, now: datetime, spacing: timedelta) -> bool:
        """False if the order is not open, or was queried less than `spacing` ago."""


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
        open_limits: Callable[[], OpenLimits],
    ) -> None:
        self._orders, self._gateway, self._credit, self._points, self._clock = orders, gateway, credit, points, clock
        self.packages, self._open_limits = packages, open_limits
        self._life = timedelta(seconds=order_life_s)
        self._grace = timedelta(seconds=expiry_grace_s)
        self._query_after = timedelta(seconds=query_after_s)
        self._poll_spacing = timedelta(seconds=poll_spacing_s)

    def order(self, *, tenant_id: UUID, order_id: UUID, user_id: UUID | None) -> Order:
        """`user_id` limits the search to that user's orders."""
        order = self._orders.order(tenant_id, order_id)
        if order is None or (user_id is not None and order.user_id != user_id):
            raise NotFound("there is no such order")
        return order

    def page(self, *, tenant_id: UUID, user_id: UUID | None, before: UUID | None, limit: int) -> Sequence[Order]:
        return self._orders.page(tenant_id, user_id=user_id, before=before, limit=limit)

    def refunds(
        self, *, tenant_id: UUID, user_id: UUID | None, order_id: UUID | None, before: UUID | None, limit: int
    ) -> Sequence[RefundLine]:
        """Newest first. `user_id` limits the list to refunds of that user's orders."""
        return self._orders.refunds(tenant_id, user_id=user_id, order_id=order_id, before=before, limit=limit)

    def receipt(self, *, tenant_id: UUID, order_id: UUID, user_id: UUID | None) -> Receipt:
        """Of an order that was paid."""
        order = self.order(tenant_id=tenant_id, order_id=order_id, user_id=user_id)
        if order.paid_at is None:
            raise OrderNotPaid("only a paid order has a receipt", status=order.status)
        tenant_name, buyer = self._orders.buyer(tenant_id, order.user_id)
        refunds = self._orders.refunds(tenant_id, user_id=None, order_id=order_id, before=None, limit=RECEIPT_REFUNDS)
        return Receipt(order, tenant_name, buyer, refunds)

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
        """The row is committed before the prepay call, so that a payment that arrives first finds its order."""
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
            limits=self._open_limits(),
        )
        if stored.request_hash != request_hash:
            raise KeyReused
        return self._prepaid(stored)

    def pay_again(self, *, tenant_id: UUID, order_id: UUID, user_id: UUID) -> Order:
        """The same code while it is valid, then a new code for the same order number. Never a second order number."""
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
                # WeChat treats a repeated number with the same body as the same order, so a retry is safe.
                if is_last_try:
                    raise PaymentAway(str(unknown)) from unknown
            except GatewayRefused as refusal:
                return self._refused(order, refusal)
            else:
                self._orders.keep_prepay(order, code, until, now=now)
                break
        return self._reload(order)

    def _refused(self, order: Order, refusal: GatewayRefused) -> Order:
        if refusal.code in {"ORDERPAID", "OUTTRADENOUSED", "ORDERCLOSED"}:
            self.synchronise(order)
            return self._reload(order)
        if refusal.code in {"PARAMERROR", "INVALIDREQUEST"}:
            self._orders.close(order, CloseReason.REFUSED)
            raise PrepayRefused("the payment service does not take this order", reason=refusal.code)
        raise PaymentAway(refusal.code)

    # --- querying, closing

    def poll(self, *, tenant_id: UUID, order_id: UUID, user_id: UUID) -> Order:
        """For the page that polls after a payment: queries WeChat at most once per spacing. The page grants nothing."""
        order = self.order(tenant_id=tenant_id, order_id=order_id, user_id=user_id)
        if not self._orders.claim_poll(order, now=self._clock.now(), spacing=self._poll_spacing):
            return order
        try:
            self.synchronise(order)
        except OutcomeUnknown:
            return order
        return self._reload(order)

    def close(self, *, tenant_id: UUID, order_id: UUID, user_id: UUID) -> Order:
        """Close at WeChat first, then here. A payment that arrived earlier stays valid."""
        order = self.order(tenant_id=tenant_id, order_id=order_id, user_id=user_id)
        if order.status is OrderStatus.CLOSED:
            return order
        if not order.status.is_open:
            raise OrderNotOpen("the order is paid", status=order.status)
        try:
            self.close_at_wechat_first(order, CloseReason.REQUESTED)
        except OutcomeUnknown as unknown:
            raise PaymentAway(str(unknown)) from unknown
        return self._reload(order)

    def synchronise(self, order: Order) -> None:
        """Query WeChat for an open order and apply the answer. Raises OutcomeUnknown."""
        self.apply(order, self.query(order))

    def query(self, order: Order) -> Payment | None:
        """The order at WeChat, or None if WeChat does not know the number. Writes nothing."""
        try:
            return self._gateway.query(order.out_trade_no)
        except GatewayRefused as refusal:
            if refusal.code in _NOT_KNOWN:
                return None
            raise OutcomeUnknown(refusal.code) from refusal

    def apply(self, order: Order, payment: Payment | None) -> None:
        """Apply WeChat's answer to an open order. A payment overrides whatever is written here."""
        is_over = self._clock.now() >= order.expires_at + self._grace
        if payment is None:
            if is_over:  # until then the prepay request may still be in flight
                self._orders.close(order, CloseReason.NEVER_PREPAID)
        elif payment.is_paid:
            self._credit.record(payment, Source.QUERY)
        elif payment.trade_state == "CLOSED":
            self._orders.close(order, CloseReason.CLOSED_THERE)
        elif is_over:
            self.close_at_wechat_first(order, CloseReason.EXPIRED)

    def close_at_wechat_first(self, order: Order, reason: CloseReason) -> None:
        """An order that is open at WeChat can still be paid, so it is never closed only here."""
        try:
            self._gateway.close(order.out_trade_no)
        except GatewayRefused as refusal:
            if refusal.code == "ORDERPAID":
                self._credit.record(self._gateway.query(order.out_trade_no), Source.QUERY)
                return
            if refusal.code not in _NOT_KNOWN | {"ORDERCLOSED"}:
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
        """Debit the points, then refund the money. In that order, so that the points cannot be spent in between."""
        with self._orders.lock(tenant_id, order_id) as locked:
            # Under the order's row lock: of two requests with one key the second finds the refund of the first.
            stored = locked.refund_of_key(idempotency_key, kept_since=self._clock.now() - KEY_LIFE)
            if stored is None:
                stored = self._reserve(locked, amount_fen, reason, notify_url, idempotency_key, request_hash)
                locked.audit(actor_id, "order.refund", {"amountFen": amount_fen, "reason": reason})
            elif stored.request_hash != request_hash:
                raise KeyReused
        if stored.status is RefundStatus.REQUESTED:
            with suppress(
                Conflict
            ):  # another process has the order's lock: the refund is stored, and the sweep sends it
                self.send_refund(stored)
        return next(one for one in self._refunds(stored) if one.refund_id == stored.refund_id)

    def _reserve(
        self,
        locked: LockedOrder,
        amount_fen: int,
        reason: str,
        notify_url: str,
        idempotency_key: str,
        request_hash: str,
    ) -> Refund:
        order, now, refund_id = locked.order, self._clock.now(), new_id()
        if order.transaction_id is None:
            raise OrderNotPaid("only what was paid can be refunded", status=order.status)
        refundable_fen = order.amount_fen - order.refunded_fen
        if amount_fen > refundable_fen:
            raise RefundTooLarge("the amount is more than is left of the payment", leftFen=refundable_fen)
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
        locked.add_refund(refund, wechat_id=None, idempotency_key=idempotency_key)
        locked.update_status()
        return refund

    def send_refund(self, refund: Refund) -> None:
        """Send the refund request, always with the same number. The sweep repeats it if no answer comes."""
        try:
            self._credit.record_refund(self._gateway.refund(refund.request_body))
        except OutcomeUnknown:
            return
        except GatewayRefused:
            self._follow_refused(refund)

    def follow_refund(self, refund: Refund) -> None:
        """Query a refund; send it again if WeChat does not know its number. Raises OutcomeUnknown."""
        try:
            self._credit.record_refund(self._gateway.query_refund(refund.out_refund_no))
        except GatewayRefused as refusal:
            if refusal.code != "RESOURCENOTEXISTS" or refund.is_external:
                raise OutcomeUnknown(refusal.code) from refusal
            try:
                self._credit.record_refund(self._gateway.refund(refund.request_body))
            except GatewayRefused as again:
                if again.code in {"NOTENOUGH", "RULELIMIT"}:  # our balance at WeChat is short and may be filled up
                    raise OutcomeUnknown(again.code) from again
                self._close_refused(refund)

    def _follow_refused(self, refund: Refund) -> None:
        """A refused request may mean that the refund exists already, so query it."""
        try:
            self.follow_refund(refund)
        except OutcomeUnknown:
            return

    def _close_refused(self, refund: Refund) -> None:
        order = self._orders.order(refund.tenant_id, refund.order_id)
        assert order is not None
        closed = RefundReport(order.out_trade_no, refund.out_refund_no, None, RefundStatus.CLOSED, refund.amount_fen)
        self._credit.record_refund(closed)

    def _refunds(self, refund: Refund) -> list[Refund]:
        with self._orders.lock(refund.tenant_id, refund.order_id) as locked:
            return locked.refunds()

    def _reload(self, order: Order) -> Order:
        stored = self._orders.order(order.tenant_id, order.order_id)
        assert stored is not None
        return stored


def _invalid(field: str, reason: str) -> Refused:
    return Refused("the request is not valid", fields=[{"field": field, "reason": reason}])
