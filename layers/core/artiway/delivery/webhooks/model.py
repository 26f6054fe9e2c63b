"""Webhooks, their deliveries and signatures."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from artiway.errors import Conflict, NotFound

SECRET_PREFIX = "whsec_"  # noqa: S105 (a prefix, not a secret)
SECRET_BYTES = 32  # Standard Webhooks takes 24 to 64

# Seconds until the next attempt after each failed one. The first attempt has no delay.
BACKOFF_S = (10, 60, 300, 900, 3600, 6 * 3600, 12 * 3600)


class NoSuchWebhook(NotFound):
    code = "WEBHOOK_404_NO_WEBHOOK"

    def __init__(self) -> None:
        super().__init__("there is no such webhook")


class NoSuchDelivery(NotFound):
    code = "WEBHOOK_404_NO_DELIVERY"

    def __init__(self) -> None:
        super().__init__("there is no such delivery")


class TooManyWebhooks(Conflict):
    code = "WEBHOOK_409_TOO_MANY"

    def __init__(self, limit: int) -> None:
        super().__init__(f"a tenant can register {limit} webhooks; delete one first", limit=limit)


class DeliveryStatus(StrEnum):
    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class Limits:
    """The limits of one tenant."""

    registered: int = 20
    implied: int = 100  # more only while each of them has a pending delivery
    pending: int = 10_000
    sends: int = 200  # at the same time


@dataclass(frozen=True)
class Webhook:
    """An implied webhook was named by a task and receives only the tasks that name it."""

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
    trace_id: str | None = None  # of its task, for one that is sent now


@dataclass(frozen=True)
class SettledTask:
    """Published by the transaction that ends a task. `after` is the last webhook of the previous page."""

    tenant_id: UUID
    task_id: UUID
    run: int
    webhook_url: str | None
    body: str
    after: UUID | None = None

    def as_data(self) -> dict[str, Any]:
        return {
            "tenantId": str(self.tenant_id),
            "taskId": str(self.task_id),
            "run": self.run,
            "webhookUrl": self.webhook_url,
            "body": self.body,
            "after": None if self.after is None else str(self.after),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> SettledTask:
        url, after = data.get("webhookUrl"), data.get("after")
        return cls(
            tenant_id=UUID(data["tenantId"]),
            task_id=UUID(data["taskId"]),
            run=int(data["run"]),
            webhook_url=None if url is None else str(url),
            body=str(data["body"]),
            after=None if after is None else UUID(after),
        )


@dataclass(frozen=True)
class Answer:
    """The receiver's answer; no code if there was none."""

    code: int | None
    text: str

    @property
    def is_taken(self) -> bool:
        return self.code is not None and 200 <= self.code < 300


@dataclass(frozen=True)
class Try:
    """The outcome of one send. `delay_s` is the time until the next one, if the delivery is still pending."""

    delivery: Delivery
    status: DeliveryStatus
    answer: Answer
    delay_s: int = 0


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def secret_key(secret: str) -> bytes:
    """The bytes of a secret. Secrets made before Standard Webhooks are base64 of the URL alphabet without padding."""
    text = secret.removeprefix(SECRET_PREFIX).translate(str.maketrans("-_", "+/")).rstrip("=")
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def standard_signature(secret: str, *, message_id: str, timestamp: int, body: bytes) -> str:
    """`webhook-signature` of Standard Webhooks. Id and timestamp are signed, so that a replay can be refused."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret_key(secret), signed, "sha256")).decode()


def signature(secret: str, *, timestamp: int, body: bytes) -> str:
    """`X-Artiway-Signature`, for receivers that are older than Standard Webhooks: the key is the secret's text."""
    signed = f"{timestamp}.".encode() + body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
