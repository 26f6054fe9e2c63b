"""Tells other systems that a task is over: signed, tried again with growing waits, every try on record."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.delivery.webhooks import messages
from artiway.delivery.webhooks.model import (
    BACKOFF_S,
    Answer,
    Delivery,
    DeliveryStatus,
    Limits,
    NoSuchDelivery,
    NoSuchWebhook,
    SettledTask,
    TooManyWebhooks,
    Webhook,
    signature,
)
from artiway.outbox.model import Message
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.tasks.model import Task
from artiway.tasks.work import Work

EVENT = "task.settled"
DELAY_LIMIT_S = 900  # SQS takes no more; for longer waits the sweeper asks again
SEND_LEASE_S = 60


class Rows(Protocol):
    """Each method is one transaction, or a part of the caller's."""

    def webhooks(self, tenant_id: UUID, *, before: UUID | None, limit: int) -> Sequence[Webhook]: ...

    def webhook(self, tenant_id: UUID, webhook_id: UUID) -> Webhook | None: ...

    def put(self, tenant_id: UUID, *, webhook_id: UUID, url: str, secret: str, limit: int) -> Webhook | None: ...

    def delete(self, tenant_id: UUID, webhook_id: UUID) -> bool: ...

    def has_registered(self, tenant_id: UUID) -> bool: ...

    def fan_out(self, settled: SettledTask, *, event: str, secret: str, limits: Limits) -> int: ...

    def deliveries(
        self, tenant_id: UUID, webhook_id: UUID, *, before: UUID | None, limit: int
    ) -> Sequence[Delivery]: ...

    def take(self, tenant_id: UUID, delivery_id: UUID, *, lease_s: int, sends: int) -> Delivery | None: ...

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
    def __init__(self, rows: Rows, post: Post, clock: Clock, limits: Limits) -> None:
        self._rows, self._post, self._clock, self._limits = rows, post, clock, limits

    def webhooks(self, *, tenant_id: UUID, before: UUID | None, limit: int) -> Sequence[Webhook]:
        return self._rows.webhooks(tenant_id, before=before, limit=limit)

    def register(self, *, tenant_id: UUID, url: str) -> Webhook:
        """The secret is shown now and never again. An address that is known already gets a new one."""
        limit = self._limits.registered
        made = self._rows.put(tenant_id, webhook_id=ids.new_id(), url=url, secret=_secret(), limit=limit)
        if made is None:
            raise TooManyWebhooks(limit)
        return made

    def remove(self, *, tenant_id: UUID, webhook_id: UUID) -> None:
        if not self._rows.delete(tenant_id, webhook_id):
            raise NoSuchWebhook

    def deliveries(self, *, tenant_id: UUID, webhook_id: UUID, before: UUID | None, limit: int) -> Sequence[Delivery]:
        if self._rows.webhook(tenant_id, webhook_id) is None:
            raise NoSuchWebhook
        return self._rows.deliveries(tenant_id, webhook_id, before=before, limit=limit)

    def redeliver(self, *, tenant_id: UUID, webhook_id: UUID, delivery_id: UUID) -> None:
        if not self._rows.redeliver(tenant_id, webhook_id, delivery_id, messages.deliver(tenant_id, delivery_id)):
            raise NoSuchDelivery

    def task_ended(self, work: Work, task: Task, body: Mapping[str, Any]) -> None:
        """In the transaction that ends the task: at most one message, however many webhooks the tenant has.

        The outbox commits it with the end itself: no ended task lacks its message, so no sweeper looks for one.
        """
        if task.webhook_url is None and not self._rows.has_registered(task.tenant_id):
            return
        text = json.dumps(
            {"type": EVENT, "taskId": ids.to_wire("task", task.task_id), "tool": task.tool, **body},
            ensure_ascii=False,
        )
        work.send(messages.fan_out(SettledTask(task.tenant_id, task.task_id, task.run, task.webhook_url, text)))

    def fan_out(self, settled: SettledTask) -> int:
        """Create one delivery for each listener. The same message again creates none."""
        return self._rows.fan_out(settled, event=EVENT, secret=_secret(), limits=self._limits)

    def deliver(self, *, tenant_id: UUID, delivery_id: UUID) -> DeliveryStatus | None:
        """Try once. None: it is not due, or the tenant has enough sends; the end of one of them publishes it again."""
        delivery = self._rows.take(tenant_id, delivery_id, lease_s=SEND_LEASE_S, sends=self._limits.sends)
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
            messages.deliver(tenant_id, delivery_id, delay_s)
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


def _secret() -> str:
    return "whsec_" + secrets.token_urlsafe(32)
