"""Tells other systems that a task is over: signed, tried again with growing waits, every try on record."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.delivery.webhooks.model import (
    BACKOFF_S,
    Answer,
    Delivery,
    DeliveryStatus,
    NoSuchDelivery,
    NoSuchWebhook,
    Webhook,
    signature,
)
from artiway.outbox.model import Message
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.tasks.model import Task
from artiway.tasks.work import Work

DESTINATION = "webhook"
DELAY_LIMIT_S = 900  # SQS takes no more; for longer waits the sweeper asks again
SEND_LEASE_S = 60


class Rows(Protocol):
    """Each method is one transaction, or a part of the caller's."""

    def webhooks(self, tenant_id: UUID, *, before: UUID | None, limit: int) -> Sequence[Webhook]: ...

    def webhook(self, tenant_id: UUID, webhook_id: UUID) -> Webhook | None: ...

    def put(self, tenant_id: UUID, *, webhook_id: UUID, url: str, secret: str) -> Webhook: ...

    def delete(self, tenant_id: UUID, webhook_id: UUID) -> bool: ...

    def listeners(self, tenant_id: UUID, url: str | None, *, secret: str) -> Sequence[UUID]: ...

    def add_delivery(self, tenant_id: UUID, *, delivery_id: UUID, webhook_id: UUID, event: str, body: str) -> None: ...

    def deliveries(
        self, tenant_id: UUID, webhook_id: UUID, *, before: UUID | None, limit: int
    ) -> Sequence[Delivery]: ...

    def take(self, tenant_id: UUID, delivery_id: UUID, *, lease_s: int) -> Delivery | None: ...

    def note_answer(
        self,
        tenant_id: UUID,
        delivery: Delivery,
        status: DeliveryStatus,
        answer: Answer,
        again: Message | None,
        delay_s: int,
    ) -> bool: ...

    def redeliver(self, tenant_id: UUID, webhook_id: UUID, delivery_id: UUID, message: Message) -> bool: ...


class Post(Protocol):
    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer: ...


class WebhookService:
    def __init__(self, rows: Rows, post: Post, clock: Clock) -> None:
        self._rows, self._post, self._clock = rows, post, clock

    def webhooks(self, *, tenant_id: UUID, before: UUID | None, limit: int) -> Sequence[Webhook]:
        return self._rows.webhooks(tenant_id, before=before, limit=limit)

    def register(self, *, tenant_id: UUID, url: str) -> Webhook:
        """The secret is shown now and never again. An address that is known already gets a new one."""
        return self._rows.put(tenant_id, webhook_id=ids.new_id(), url=url, secret=_secret())

    def remove(self, *, tenant_id: UUID, webhook_id: UUID) -> None:
        if not self._rows.delete(tenant_id, webhook_id):
            raise NoSuchWebhook

    def deliveries(self, *, tenant_id: UUID, webhook_id: UUID, before: UUID | None, limit: int) -> Sequence[Delivery]:
        if self._rows.webhook(tenant_id, webhook_id) is None:
            raise NoSuchWebhook
        return self._rows.deliveries(tenant_id, webhook_id, before=before, limit=limit)

    def redeliver(self, *, tenant_id: UUID, webhook_id: UUID, delivery_id: UUID) -> None:
        if not self._rows.redeliver(tenant_id, webhook_id, delivery_id, _message(tenant_id, delivery_id)):
            raise NoSuchDelivery

    def task_ended(self, work: Work, task: Task, body: Mapping[str, Any]) -> None:
        """In the transaction that ends the task: one delivery for each who listens."""
        text = json.dumps(
            {"type": "task.settled", "taskId": ids.to_wire("task", task.task_id), "tool": task.tool, **body},
            ensure_ascii=False,
        )
        for webhook_id in self._rows.listeners(task.tenant_id, task.webhook_url, secret=_secret()):
            delivery_id = ids.new_id()
            self._rows.add_delivery(
                task.tenant_id, delivery_id=delivery_id, webhook_id=webhook_id, event="task.settled", body=text
            )
            work.send(_message(task.tenant_id, delivery_id))

    def deliver(self, *, tenant_id: UUID, delivery_id: UUID) -> DeliveryStatus | None:
        """Try once. None: it is not its time, or not wanted any more."""
        delivery = self._rows.take(tenant_id, delivery_id, lease_s=SEND_LEASE_S)
        if delivery is None:
            return None
        webhook = self._rows.webhook(tenant_id, delivery.webhook_id)
        answer = Answer(None, "the webhook was removed") if webhook is None else self._send(webhook, delivery)
        tries_left = webhook is not None and delivery.attempts <= len(BACKOFF_S)
        if answer.is_taken:
            status, delay_s = DeliveryStatus.DELIVERED, 0
        elif tries_left:
            status, delay_s = DeliveryStatus.PENDING, BACKOFF_S[delivery.attempts - 1]
        else:
            status, delay_s = DeliveryStatus.FAILED, 0
        again = (
            _message(tenant_id, delivery_id, delay_s)
            if status is DeliveryStatus.PENDING and delay_s <= DELAY_LIMIT_S
            else None
        )
        self._rows.note_answer(tenant_id, delivery, status, answer, again, delay_s)
        metrics.emit("WebhookTries", 1, outcome=status)
        return status

    def _send(self, webhook: Webhook, delivery: Delivery) -> Answer:
        body, timestamp = delivery.body.encode(), int(self._clock.now().timestamp())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Artiway-Webhook/1",
            "X-Artiway-Event": delivery.event,
            # The same for every try, so that the receiver can drop what it has.
            "X-Artiway-Delivery": ids.to_wire("dlv", delivery.delivery_id),
            "X-Artiway-Timestamp": str(timestamp),
            "X-Artiway-Signature": signature(webhook.secret, timestamp=timestamp, body=body),
        }
        return self._post.post(webhook.url, body, headers)


def _message(tenant_id: UUID, delivery_id: UUID, delay_s: int = 0) -> Message:
    data = {"tenantId": str(tenant_id), "deliveryId": str(delivery_id)}
    return Message(DESTINATION, f"delivery:{delivery_id}", "deliver", data, delay_s, tenant_id)


def _secret() -> str:
    return "whsec_" + secrets.token_urlsafe(32)
