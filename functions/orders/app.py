"""Packages, orders, payments and refunds."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import Field

from artiway import bootstrap
from artiway.errors import NotFound
from artiway.idempotency.model import key_of_user
from artiway.ids import from_wire, new_id, to_wire
from artiway.payments.model import Channel, Order, OrderStatus, RefundLine, RefundStatus
from artiway.platform import http

api = http.Api("orders", origin=bootstrap.origin, access_check=bootstrap.access_check)
handler = api.handler


class PackageBody(http.Wire):
    package_id: str
    amount_fen: int
    points: int


class PackagesBody(http.Wire):
    items: list[PackageBody]
    next_cursor: str | None


class NewOrderBody(http.Wire, populate_by_name=False):
    package_id: str = Field(min_length=1, max_length=64)
    channel: Channel
    openid: str | None = Field(default=None, min_length=1, max_length=128)


class OrderBody(http.Wire):
    order_id: str
    status: OrderStatus
    package_id: str
    amount_fen: int
    points: int
    channel: Channel
    created_at: datetime
    expires_at: datetime
    refunded_fen: int
    flag: str | None = None
    close_reason: str | None = None
    transaction_id: str | None = None
    paid_at: datetime | None = None
    code_url: str | None = None
    h5_url: str | None = None
    pay_params: dict[str, str] | None = None


class OrdersBody(http.Wire):
    items: list[OrderBody]
    next_cursor: str | None


class NewRefundBody(http.Wire, populate_by_name=False):
    amount_fen: int = Field(gt=0, le=2_147_483_647, strict=True)
    reason: str = Field(min_length=1, max_length=80)
    tenant_id: str | None = Field(
        default=None, max_length=64, description="of a platform administrator; the caller's own, if left out"
    )


class RefundBody(http.Wire):
    refund_id: str
    status: RefundStatus


class RefundLineBody(RefundBody):
    order_id: str
    amount_fen: int
    points: int
    reason: str
    created_at: datetime
    ended_at: datetime | None


class RefundsBody(http.Wire):
    items: list[RefundLineBody]
    next_cursor: str | None


class ReceiptBody(http.Wire):
    """For a printed page. It is no fapiao."""

    receipt_number: str = Field(description="our number of the payment at WeChat")
    order_id: str
    transaction_id: str
    tenant_name: str
    buyer: str
    package_id: str
    points: int
    amount_fen: int
    refunded_fen: int
    channel: Channel
    status: OrderStatus
    created_at: datetime
    paid_at: datetime
    refunds: list[RefundLineBody]


@api.get("/packages")
def list_packages(cursor: http.Cursor = None, limit: http.Limit = 50) -> PackagesBody:
    """The packages of points."""
    found, next_cursor = http.page_of(bootstrap.orders().packages, cursor, limit)
    items = [PackageBody(package_id=one.package_id, amount_fen=one.amount_fen, points=one.points) for one in found]
    return PackagesBody(items=items, next_cursor=next_cursor)


@api.post("/orders", permission="order.create", status=201, errors=[409], keyed=True)
def create_order(body: NewOrderBody) -> tuple[OrderBody, int]:
    """Order a package. A repeated Idempotency-Key returns the same order with a valid code."""
    key, request_hash = _once()
    order = bootstrap.orders().create(
        tenant_id=api.identity.tenant_id,
        user_id=api.identity.user_id,
        package_id=body.package_id,
        channel=body.channel,
        openid=body.openid,
        client_address=api.client_address,
        notify_url=_public_url("/wechat/pay/notify"),
        idempotency_key=key,
        request_hash=request_hash,
    )
    return _order(order, is_to_pay=True), 201


@api.get("/orders", permission="order.create")
def list_orders(cursor: http.Cursor = None, limit: http.Limit = 50) -> OrdersBody:
    """The caller's orders, newest first; with `order.refund` those of the tenant."""
    found = bootstrap.orders().page(
        tenant_id=api.identity.tenant_id, user_id=_whose(), before=http.place_of(cursor), limit=limit + 1
    )
    next_place = found[limit - 1].order_id if len(found) > limit else None
    return OrdersBody(items=[_order(order) for order in found[:limit]], next_cursor=http.cursor_of(next_place))


@api.get("/orders/<order_id>", permission="order.create")
def get_order(order_id: str) -> OrderBody:
    """One order as it is stored."""
    order = bootstrap.orders().order(
        tenant_id=api.identity.tenant_id, order_id=from_wire("ord", order_id), user_id=_whose()
    )
    return _order(order)


@api.post("/orders/<order_id>/pay", permission="order.create", errors=[409])
def pay_order(order_id: str) -> OrderBody:
    """The payment code of an open order: the same while it is valid, then a new one."""
    order = bootstrap.orders().pay_again(**_mine(order_id))
    return _order(order, is_to_pay=True)


@api.post("/orders/<order_id>/check", permission="order.create")
def check_order(order_id: str) -> OrderBody:
    """Query WeChat now, at most once in a few seconds. For the page that a payer returns to."""
    return _order(bootstrap.orders().poll(**_mine(order_id)))


@api.post("/orders/<order_id>/close", permission="order.create", errors=[409])
def close_order(order_id: str) -> OrderBody:
    """Close an open order at WeChat and here. An order that was paid meanwhile is completed instead."""
    return _order(bootstrap.orders().close(**_mine(order_id)))


@api.post("/orders/<order_id>/refunds", permission="order.refund", status=202, errors=[402, 409], keyed=True)
def refund_order(order_id: str, body: NewRefundBody) -> tuple[RefundBody, int]:
    """Refund an order in full or in part, if the points are not spent."""
    key, request_hash = _once()
    refund = bootstrap.orders().refund(
        tenant_id=_tenant(body.tenant_id),
        order_id=from_wire("ord", order_id),
        actor_id=api.identity.user_id,
        amount_fen=body.amount_fen,
        reason=body.reason,
        notify_url=_public_url("/wechat/refund/notify"),
        idempotency_key=key,
        request_hash=request_hash,
    )
    return RefundBody(refund_id=to_wire("ref", refund.refund_id), status=refund.status), 202


@api.get("/refunds", permission="order.create")
def list_refunds(
    order_id: Annotated[str | None, Query(alias="orderId", max_length=64)] = None,
    cursor: http.Cursor = None,
    limit: http.Limit = 50,
) -> RefundsBody:
    """Refunds of the caller's orders, newest first; with `order.refund` those of the tenant."""
    try:
        order = None if order_id is None else from_wire("ord", order_id)
    except NotFound:
        return RefundsBody(items=[], next_cursor=None)
    found = bootstrap.orders().refunds(
        tenant_id=api.identity.tenant_id,
        user_id=_whose(),
        order_id=order,
        before=http.place_of(cursor),
        limit=limit + 1,
    )
    next_place = found[limit - 1].refund_id if len(found) > limit else None
    return RefundsBody(items=[_refund(one) for one in found[:limit]], next_cursor=http.cursor_of(next_place))


@api.get("/orders/<order_id>/receipt", permission="order.create", errors=[409])
def get_receipt(order_id: str) -> ReceiptBody:
    """What a receipt of a paid order shows."""
    receipt = bootstrap.orders().receipt(
        tenant_id=api.identity.tenant_id, order_id=from_wire("ord", order_id), user_id=_whose()
    )
    order = receipt.order
    assert order.paid_at is not None
    return ReceiptBody(
        receipt_number=order.out_trade_no,
        order_id=to_wire("ord", order.order_id),
        transaction_id=order.transaction_id or "",
        tenant_name=receipt.tenant_name,
        buyer=receipt.buyer,
        package_id=order.package_id,
        points=order.points,
        amount_fen=order.amount_fen,
        refunded_fen=order.refunded_fen,
        channel=order.channel,
        status=order.status,
        created_at=order.created_at,
        paid_at=order.paid_at,
        refunds=[_refund(one) for one in receipt.refunds],
    )


def _refund(refund: RefundLine) -> RefundLineBody:
    return RefundLineBody(
        refund_id=to_wire("ref", refund.refund_id),
        status=refund.status,
        order_id=to_wire("ord", refund.order_id),
        amount_fen=refund.amount_fen,
        points=refund.points,
        reason=refund.reason,
        created_at=refund.started_at,
        ended_at=refund.ended_at,
    )


def _mine(order_id: str) -> dict[str, Any]:
    identity = api.identity
    return {"tenant_id": identity.tenant_id, "order_id": from_wire("ord", order_id), "user_id": identity.user_id}


def _tenant(given: str | None) -> UUID:
    """The caller's tenant, or the one that a platform administrator names. To others no other tenant exists."""
    if given is None:
        return api.identity.tenant_id
    wanted = from_wire("tnt", given)
    if wanted != api.identity.tenant_id and not api.identity.may("tenant.manage"):
        raise NotFound("there is no such tenant")
    return wanted


def _whose() -> UUID | None:
    return None if api.identity.may("order.refund") else api.identity.user_id


def _once() -> tuple[str, str]:
    """The key and the hash of its request. The order stores them, because it commits before the call to WeChat."""
    key = api.idempotency_key or str(new_id())
    user_id = api.identity.user_id
    asked = f"{user_id}\n{api.event['rawPath']}\n".encode() + api.raw_body
    return key_of_user(user_id, key), hashlib.sha256(asked).hexdigest()


def _public_url(path: str) -> str:
    base = bootstrap.settings().public_url or f"https://{api.public_host}"
    return base.rstrip("/") + http.BASE + path


def _order(order: Order, *, is_to_pay: bool = False) -> OrderBody:
    code = order.prepay_code if order.status is OrderStatus.PAYING else None
    pay_params = None
    if code is not None and is_to_pay and order.channel is Channel.JSAPI:
        pay_params = bootstrap.wechat_pay().pay_params(code)
    return OrderBody(
        order_id=to_wire("ord", order.order_id),
        status=order.status,
        package_id=order.package_id,
        amount_fen=order.amount_fen,
        points=order.points,
        channel=order.channel,
        created_at=order.created_at,
        expires_at=order.expires_at,
        refunded_fen=order.refunded_fen,
        flag=order.flag,
        close_reason=order.close_reason,
        transaction_id=order.transaction_id,
        paid_at=order.paid_at,
        code_url=code if order.channel is Channel.NATIVE else None,
        h5_url=code if order.channel is Channel.H5 else None,
        pay_params=pay_params,
    )
