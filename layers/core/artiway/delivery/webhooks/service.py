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
# One call sends parked deliveries for so long. The last of them may take the longest that an address may, and the
# function ends after ten seconds.
KEEP_SENDING_S = 1.0


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
        *,
        delay_s: int,
        next_lease_s: int | None,
    ) -> Delivery | None:
        """Take a parked delivery of the tenant in its place, or publish one if there is no time for it."""

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
        """Try it once, then those of the tenant that are parked, for a second.

        None: it is not due, or the tenant has enough sends; then it is parked, and one of them takes it.
        """
        began = self._clock.now()
        delivery = self._rows.take(tenant_id, delivery_id, lease_s=SEND_LEASE_S, sends=self._limits.sends)
        first = None
        while delivery is not None:
            status, answer, delay_s = self._try(tenant_id, delivery)
            is_again = status is DeliveryStatus.PENDING and delay_s <= DELAY_LIMIT_S
            again = messages.deliver(tenant_id, delivery.delivery_id, delay_s) if is_again else None
            is_time_left = (self._clock.now() - began).total_seconds() < KEEP_SENDING_S
            delivery = self._rows.note_answer(
                tenant_id,
                delivery,
                status,
                answer,
                again,
                delay_s=delay_s,
                next_lease_s=SEND_LEASE_S if is_time_left else None,
            )
            metrics.emit("WebhookTries", 1, outcome=status)
            first = first or status
        return first

    def _try(self, tenant_id: UUID, delivery: Delivery) -> tuple[DeliveryStatus, Answer, int]:
        webhook = self._rows.webhook(tenant_id, delivery.webhook_id)
        if webhook is None:
            return DeliveryStatus.FAILED, Answer(None, "the webhook was removed"), 0
        answer = self._send(webhook, delivery)
        if answer.is_taken:
            return DeliveryStatus.DELIVERED, answer, 0
        if delivery.attempts <= len(BACKOFF_S):
            return DeliveryStatus.PENDING, answer, BACKOFF_S[delivery.attempts - 1]
        return DeliveryStatus.FAILED, answer, 0

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
