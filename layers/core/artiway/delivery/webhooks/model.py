"""Who is told by HTTP when a task is over, and what became of telling them."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from artiway.errors import NotFound

# Seconds until the next try after each failed one. The first goes at once.
BACKOFF_S = (10, 60, 300, 900, 3600, 6 * 3600, 12 * 3600)


class NoSuchWebhook(NotFound):
    code = "WEBHOOK_404_NO_WEBHOOK"

    def __init__(self) -> None:
        super().__init__("there is no such webhook")


class NoSuchDelivery(NotFound):
    code = "WEBHOOK_404_NO_DELIVERY"

    def __init__(self) -> None:
        super().__init__("there is no such delivery")


class DeliveryStatus(StrEnum):
    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class Webhook:
    """An implied one was named by a task, and hears of such tasks alone."""

    webhook_id: UUID
    url: str
    secret: str
    is_implied: bool
    created_at: datetime


@dataclass(frozen=True)
class Delivery:
    delivery_id: UUID
    webhook_id: UUID
    event: str
    body: str
    status: DeliveryStatus
    attempts: int
    next_try_at: datetime
    answer_code: int | None
    answer: str | None
    created_at: datetime
    delivered_at: datetime | None


@dataclass(frozen=True)
class Answer:
    """What the other side said; no code where it said nothing."""

    code: int | None
    text: str

    @property
    def is_taken(self) -> bool:
        return self.code is not None and 200 <= self.code < 300


def signature(secret: str, *, timestamp: int, body: bytes) -> str:
    """What the receiver computes too. The timestamp is in it, so that an old delivery cannot be played again."""
    signed = f"{timestamp}.".encode() + body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
