"""Orders, payments and refunds. Money is always an integer in fen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from artiway.errors import Conflict, Refused, Unavailable

CURRENCY = "CNY"


class OrderStatus(StrEnum):
    """PAID: WeChat reported the payment. COMPLETED: the points are credited. Both happen in one transaction."""

    CREATED = "CREATED"
    PAYING = "PAYING"
    PAID = "PAID"
    COMPLETED = "COMPLETED"
    CLOSED = "CLOSED"
    REFUNDING = "REFUNDING"
    REFUNDED = "REFUNDED"

    @property
    def is_open(self) -> bool:
        return self in (OrderStatus.CREATED, OrderStatus.PAYING)


class Channel(StrEnum):
    NATIVE = "native"
    JSAPI = "jsapi"
    H5 = "h5"


class CloseReason(StrEnum):
    REQUESTED = "REQUESTED"
    EXPIRED = "EXPIRED"
    NEVER_PREPAID = "NEVER_PREPAID"
    REFUSED = "REFUSED"
    CLOSED_THERE = "CLOSED_THERE"


class Flag(StrEnum):
    MISMATCH = "MISMATCH"
    OVERPAID = "OVERPAID"
    PAID_LATE = "PAID_LATE"


class Answer(StrEnum):
    """The result of a callback, which decides the answer to WeChat."""

    DONE = "done"
    NOT_FROM_WECHAT = "not from WeChat"
    UNREADABLE = "unreadable"


class Source(StrEnum):
    """Where a payment was reported. All sources use the same credit function."""

    CALLBACK = "callback"
    QUERY = "query"
    BILL = "bill"


class Outcome(StrEnum):
    """The result of recording a reported payment."""

    CREDITED = "CREDITED"
    ALREADY = "ALREADY"
    UNPAID = "UNPAID"
    OVERPAID = "OVERPAID"
    MISMATCH = "MISMATCH"
    ORPHAN = "ORPHAN"
    FOREIGN = "FOREIGN"


class RefundStatus(StrEnum):
    REQUESTED = "REQUESTED"
    PROCESSING = "PROCESSING"
    ABNORMAL = "ABNORMAL"
    SUCCESS = "SUCCESS"
    CLOSED = "CLOSED"

    @property
    def is_final(self) -> bool:
        return self in (RefundStatus.SUCCESS, RefundStatus.CLOSED)


_PROGRESS = {RefundStatus.REQUESTED: 0, RefundStatus.PROCESSING: 1, RefundStatus.ABNORMAL: 2}


@dataclass(frozen=True)
class Package:
    package_id: str
    amount_fen: int
    points: int


@dataclass(frozen=True)
class OpenLimits:
    """How many orders may be open at once. The sweep queries each open order at WeChat."""

    per_user: int
    per_tenant: int


@dataclass(frozen=True)
class Order:
    tenant_id: UUID
    order_id: UUID
    user_id: UUID
    out_trade_no: str
    mchid: str
    appid: str
    package_id: str
    amount_fen: int
    points: int
    channel: Channel
    openid: str | None
    status: OrderStatus
    close_reason: CloseReason | None
    flag: Flag | None
    prepay_body: str
    prepay_code: str | None
    prepay_until: datetime | None
    created_at: datetime
    expires_at: datetime
    transaction_id: str | None
    paid_at: datetime | None
    refunded_fen: int
    refunded_points: int
    request_hash: str | None
    query_tries: int

    def points_for(self, refund_fen: int) -> int:
        """The points that a further refund debits: its share, rounded up. A full refund debits exactly all points."""
        refunded_fen = self.refunded_fen + refund_fen
        share = -(-self.points * refunded_fen // self.amount_fen)
        return share - self.refunded_points


@dataclass(frozen=True)
class Payment:
    """A transaction as WeChat reports it. `is_paid` stays true after a refund has started."""

    mchid: str
    appid: str
    out_trade_no: str
    trade_state: str
    transaction_id: str | None
    amount_fen: int | None
    currency: str | None
    payer_total_fen: int | None
    payer_openid: str | None
    paid_at: datetime | None

    @property
    def is_paid(self) -> bool:
        return (
            self.trade_state in {"SUCCESS", "REFUND"} and self.transaction_id is not None and self.paid_at is not None
        )

    def pays(self, order: Order) -> bool:
        return (self.amount_fen, self.currency) == (order.amount_fen, CURRENCY)

    @property
    def ledger_key(self) -> str:
        return f"wxpay:{self.mchid}:{self.transaction_id}"


@dataclass(frozen=True)
class Refund:
    tenant_id: UUID
    refund_id: UUID
    order_id: UUID
    out_refund_no: str
    amount_fen: int
    points: int
    points_taken: int
    is_debited: bool
    is_external: bool
    reason: str
    request_body: str
    status: RefundStatus
    started_at: datetime
    request_hash: str | None
    query_tries: int


@dataclass(frozen=True)
class RefundLine:
    """A refund as its users see it."""

    refund_id: UUID
    order_id: UUID
    amount_fen: int
    points: int
    status: RefundStatus
    reason: str
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True)
class Receipt:
    """What a printed receipt shows. It is no fapiao."""

    order: Order
    tenant_name: str
    buyer: str
    refunds: Sequence[RefundLine]


@dataclass(frozen=True)
class RefundReport:
    """A refund as WeChat reports it."""

    out_trade_no: str
    out_refund_no: str
    wechat_id: str | None
    status: RefundStatus
    amount_fen: int
    started_at: datetime | None = None
    # Compared if present: a notification has the merchant, an answer the currency.
    mchid: str | None = None
    transaction_id: str | None = None
    total_fen: int | None = None
    currency: str | None = None

    def is_about(self, order: Order, refund: Refund | None) -> bool:
        """Whether every field that is present equals the order's, and our refund's if there is one."""
        expected_fen = self.amount_fen if refund is None else refund.amount_fen
        pairs: list[tuple[object, object]] = [
            (self.mchid, order.mchid),
            (self.total_fen, order.amount_fen),
            (self.currency, CURRENCY),
            (self.transaction_id, order.transaction_id or self.transaction_id),
            (self.amount_fen, expected_fen),
        ]
        return 0 < self.amount_fen <= order.amount_fen and all(theirs in (None, ours) for theirs, ours in pairs)


@dataclass(frozen=True)
class Notification:
    """A verified and decrypted notification. For an unknown event type it has neither payment nor refund."""

    notification_id: str
    event_type: str
    payment: Payment | None = None
    refund: RefundReport | None = None


def may_become(now: RefundStatus, then: RefundStatus) -> bool:
    """A refund's state never goes back, in whatever order the reports arrive."""
    if now.is_final or now is then:
        return False
    return then.is_final or _PROGRESS[then] > _PROGRESS[now]


def status_after_refunds(order: Order, refunds: list[Refund]) -> OrderStatus:
    if any(not refund.status.is_final for refund in refunds):
        return OrderStatus.REFUNDING
    returned_fen = sum(refund.amount_fen for refund in refunds if refund.status is RefundStatus.SUCCESS)
    return OrderStatus.REFUNDED if returned_fen >= order.amount_fen else OrderStatus.COMPLETED


# --- errors of the API


class OrderNotOpen(Conflict):
    code = "ORDER_409_NOT_OPEN"


class TooManyOpen(Conflict):
    """Too many orders are neither paid nor closed."""

    code = "ORDER_409_TOO_MANY_OPEN"

    def __init__(self, *, limit: int, scope: str) -> None:
        super().__init__(f"a {scope} has at most {limit} open orders; pay or close one first", limit=limit, scope=scope)


class OrderNotPaid(Conflict):
    code = "ORDER_409_NOT_PAID"


class RefundTooLarge(Refused):
    code = "ORDER_422_REFUND_TOO_LARGE"


class PrepayRefused(Refused):
    code = "ORDER_422_PREPAY_REFUSED"


class PaymentAway(Unavailable):
    """WeChat Pay sent no verified answer. The client may send the same request again."""

    code = "ORDER_503_PAYMENT_AWAY"

    def __init__(self, reason: str) -> None:
        super().__init__("the payment service did not answer; try again", retry_after_s=5)
        self.reason = reason


# --- errors of the gateway


class OutcomeUnknown(Exception):
    """No verified answer: WeChat may or may not have done it. Query before the next step."""


class RateLimited(OutcomeUnknown):
    """WeChat limits our rate: stop sending for now."""


class GatewayRefused(Exception):
    """A signed refusal. `code` is WeChat's without underscores: both spellings occur."""

    def __init__(self, code: str, status: int) -> None:
        super().__init__(code)
        self.code, self.status = code.replace("_", ""), status


class BillNotReady(Exception):
    """The bill of that day does not exist yet."""


class NoBill(Exception):
    """WeChat reports that the day had no trade."""


class BillBroken(Exception):
    """The bill does not match its own hash or totals, so it is not compared."""


class Forged(Exception):
    """A notification without a valid, recent signature. `reason` is a fixed word, safe for metrics and logs."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Undecryptable(Exception):
    """WeChat signed it but our APIv3 key does not decrypt it."""
