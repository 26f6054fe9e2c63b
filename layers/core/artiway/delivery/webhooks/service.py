"""Calls webhooks when a task has ended: signed, retried with growing delays, each attempt recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
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
    new_secret,
    signature,
    standard_signature,
)
from artiway.events import Event
from artiway.outbox.model import Message
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.tasks.model import InvalidRequest, Task
from artiway.tasks.transaction import TaskTransaction

logger = Logger("webhooks")
DELAY_LIMIT_S = 900  # the limit of SQS; after a longer delay the watchdog publishes the delivery
SEND_LEASE_S = 60
PARALLEL_SENDS = 50  # a batch of the queue: the function's time-out covers parallel calls, not sequential ones
# For this long a call takes parked deliveries. The last one may take a whole webhook time-out, and the function's
# time-out is longer than both together.
KEEP_SENDING_S = 1.0


Send = tuple[UUID, Delivery, bool]  # tenant, delivery, whether its webhook still exists


class WebhookStore(Protocol):
    """Each method is one transaction, or joins the caller's."""

    def webhooks(self, tenant_id: UUID, *, before: UUID | None, limit: int) -> Sequence[Webhook]: ...

    def webhook(self, tenant_id: UUID, webhook_id: UUID) -> Webhook | None: ...

    def put(self, tenant_id: UUID, *, webhook_id: UUID, url: str, secret: str, limit: int) -> Webhook | None: ...

    def delete(self, tenant_id: UUID, webhook_id: UUID) -> bool: ...

    def has_registered(self, tenant_id: UUID) -> bool: ...

    def fan_out(self, settled: SettledTask, *, event: str, secret: str, limits: Limits) -> int: ...

    def publish_delivery(
        self, tenant_id: UUID, *, delivery_id: UUID, webhook_id: UUID, event: str, body: str, message: Message
    ) -> bool: ...

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
        retry: Message | None,
        *,
        delay_s: int,
        next_lease_s: int | None,
    ) -> Delivery | None:
        """Also claims a parked delivery of the tenant, or publishes one if there is no time to send it."""

    def redeliver(self, tenant_id: UUID, webhook_id: UUID, delivery_id: UUID, message: Message) -> bool: ...


class Post(Protocol):
    """Called by several threads at once."""

    def refusal(self, url: str, *, is_looked_up: bool) -> str | None: ...

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer: ...


class WebhookService:
    def __init__(self, store: WebhookStore, post: Post, clock: Clock, limits: Limits) -> None:
        self._store, self._post, self._clock, self._limits = store, post, clock, limits

    def webhooks(self, *, tenant_id: UUID, before: UUID | None, limit: int) -> Sequence[Webhook]:
        return self._store.webhooks(tenant_id, before=before, limit=limit)

    def register(self, *, tenant_id: UUID, url: str) -> Webhook:
        """The secret is shown only now. A registered URL gets a new secret."""
        if (reason := self._post.refusal(url, is_looked_up=True)) is not None:
            raise InvalidRequest("url", reason)
        limit = self._limits.registered
        made = self._store.put(tenant_id, webhook_id=ids.new_id(), url=url, secret=new_secret(), limit=limit)
        if made is None:
            raise TooManyWebhooks(limit)
        return made

    def remove(self, *, tenant_id: UUID, webhook_id: UUID) -> None:
        if not self._store.delete(tenant_id, webhook_id):
            raise NoSuchWebhook

    def deliveries(self, *, tenant_id: UUID, webhook_id: UUID, before: UUID | None, limit: int) -> Sequence[Delivery]:
        if self._store.webhook(tenant_id, webhook_id) is None:
            raise NoSuchWebhook
        return self._store.deliveries(tenant_id, webhook_id, before=before, limit=limit)

    def redeliver(self, *, tenant_id: UUID, webhook_id: UUID, delivery_id: UUID) -> None:
        if not self._store.redeliver(tenant_id, webhook_id, delivery_id, messages.deliver(tenant_id, delivery_id)):
            raise NoSuchDelivery

    def send_test(self, *, tenant_id: UUID, webhook_id: UUID) -> UUID:
        """Publish a delivery without content, which is signed, sent and retried as any other."""
        delivery_id = ids.new_id()
        body = {
            "type": Event.WEBHOOK_TEST,
            "webhookId": ids.to_wire("whk", webhook_id),
            "at": self._clock.now().isoformat(timespec="milliseconds"),
        }
        is_found = self._store.publish_delivery(
            tenant_id,
            delivery_id=delivery_id,
            webhook_id=webhook_id,
            event=Event.WEBHOOK_TEST,
            body=json.dumps(body),
            message=messages.deliver(tenant_id, delivery_id),
        )
        if not is_found:
            raise NoSuchWebhook
        return delivery_id

    def task_ended(self, tx: TaskTransaction, task: Task, body: Mapping[str, Any]) -> None:
        """Publish at most one message in the transaction that ends the task, for any number of webhooks.

        The outbox commits the message with the end of the task, so no sweep has to find ended tasks without one.
        """
        if task.webhook_url is None and not self._store.has_registered(task.tenant_id):
            return
        text = json.dumps(
            {"type": Event.TASK_SETTLED, "taskId": ids.to_wire("task", task.task_id), "tool": task.tool, **body},
            ensure_ascii=False,
        )
        tx.send(messages.fan_out(SettledTask(task.tenant_id, task.task_id, task.run, task.webhook_url, text)))

    def fan_out(self, settled: SettledTask) -> int:
        """Create one delivery for each webhook of the task. A repeated message creates none."""
        return self._store.fan_out(settled, event=Event.TASK_SETTLED, secret=new_secret(), limits=self._limits)

    def deliver(self, *, tenant_id: UUID, delivery_id: UUID) -> DeliveryStatus | None:
        """Send it once, then parked deliveries of the tenant.

        None: it is not due, or the tenant has reached its sends; then it is parked until one of them ends.
        """
        return self.deliver_all([(tenant_id, delivery_id)]).get(delivery_id)

    def deliver_all(self, wanted: Sequence[tuple[UUID, UUID]]) -> Mapping[UUID, DeliveryStatus]:
        """Send each once, by tenant and id. The calls run in parallel; only this thread uses the database."""
        began = self._clock.now()
        taken = [
            (tenant_id, delivery)
            for tenant_id, delivery_id in wanted
            if (delivery := self._store.take(tenant_id, delivery_id, lease_s=SEND_LEASE_S, sends=self._limits.sends))
        ]
        if not taken:
            return {}
        statuses: dict[UUID, DeliveryStatus] = {}
        failures: list[Exception] = []
        with ThreadPoolExecutor(min(len(taken), PARALLEL_SENDS), "webhook") as pool:
            sends: dict[Future[Answer], Send] = {}

            def start(tenant_id: UUID, delivery: Delivery) -> None:
                webhook = self._store.webhook(tenant_id, delivery.webhook_id)
                sends[pool.submit(self._answer, webhook, delivery)] = (tenant_id, delivery, webhook is not None)

            for tenant_id, delivery in taken:
                start(tenant_id, delivery)
            while sends:
                ended, _ = wait(sends, return_when=FIRST_COMPLETED)
                for send in ended:
                    tenant_id, delivery, is_wanted = sends.pop(send)
                    is_time_left = (self._clock.now() - began).total_seconds() < KEEP_SENDING_S
                    try:
                        status, parked = self._note(
                            tenant_id, delivery, _result(send), is_wanted=is_wanted, is_time_left=is_time_left
                        )
                        statuses[delivery.delivery_id] = status
                        if parked is not None:
                            start(tenant_id, parked)
                    except Exception as error:  # noqa: BLE001 (the other answers are stored first)
                        failures.append(error)
        if failures:
            raise failures[0]
        return statuses

    def _note(
        self, tenant_id: UUID, delivery: Delivery, answer: Answer, *, is_wanted: bool, is_time_left: bool
    ) -> tuple[DeliveryStatus, Delivery | None]:
        """Store the answer, and claim the tenant's next parked delivery in the same transaction."""
        if answer.is_taken:
            status, delay_s = DeliveryStatus.DELIVERED, 0
        elif is_wanted and delivery.attempts <= len(BACKOFF_S):
            status, delay_s = DeliveryStatus.PENDING, BACKOFF_S[delivery.attempts - 1]
        else:
            status, delay_s = DeliveryStatus.FAILED, 0
        is_retried = status is DeliveryStatus.PENDING and delay_s <= DELAY_LIMIT_S
        parked = self._store.note_answer(
            tenant_id,
            delivery,
            status,
            answer,
            messages.deliver(tenant_id, delivery.delivery_id, delay_s) if is_retried else None,
            delay_s=delay_s,
            next_lease_s=SEND_LEASE_S if is_time_left else None,
        )
        metrics.emit("WebhookTries", 1, outcome=status)
        return status, parked

    def _answer(self, webhook: Webhook | None, delivery: Delivery) -> Answer:
        return Answer(None, "the webhook was removed") if webhook is None else self._send(webhook, delivery)

    def _send(self, webhook: Webhook, delivery: Delivery) -> Answer:
        body, timestamp = delivery.body.encode(), int(self._clock.now().timestamp())
        # The same id for every attempt, so that the receiver can drop a repeated delivery.
        message_id = ids.to_wire("dlv", delivery.delivery_id)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Artiway-Webhook/1",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": standard_signature(
                webhook.secret, message_id=message_id, timestamp=timestamp, body=body
            ),
            "X-Artiway-Event": delivery.event,
            "X-Artiway-Delivery": message_id,
            "X-Artiway-Timestamp": str(timestamp),
            "X-Artiway-Signature": signature(webhook.secret, timestamp=timestamp, body=body),
        }
        return self._post.post(webhook.url, body, headers)


def _result(send: Future[Answer]) -> Answer:
    """An error on our side counts as a failed attempt, so that the delivery is retried and the batch goes on."""
    try:
        return send.result()
    except Exception:
        logger.exception("delivery not sent")
        return Answer(None, "an error on our side")
