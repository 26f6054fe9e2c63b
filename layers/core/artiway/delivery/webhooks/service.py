"""Tells other systems that a task is over: signed, tried again with growing waits, every try on record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
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
    standard_signature,
)
from artiway.delivery.webhooks.model import delivery_message as _message
from artiway.delivery.webhooks.model import new_secret as _secret
from artiway.outbox.model import Message
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.tasks.model import InvalidRequest, Task
from artiway.tasks.work import Work

logger = Logger("webhooks")
DELAY_LIMIT_S = 900  # SQS takes no more; for longer waits the sweeper asks again
SEND_LEASE_S = 60
PARALLEL_SENDS = 50  # a batch of the queue: the function's time covers one call, not one after another
TEST_EVENT = "webhook.test"


class Rows(Protocol):
    """Each method is one transaction, or a part of the caller's."""

    def webhooks(self, tenant_id: UUID, *, before: UUID | None, limit: int) -> Sequence[Webhook]: ...

    def webhook(self, tenant_id: UUID, webhook_id: UUID) -> Webhook | None: ...

    def put(self, tenant_id: UUID, *, webhook_id: UUID, url: str, secret: str) -> Webhook: ...

    def delete(self, tenant_id: UUID, webhook_id: UUID) -> bool: ...

    def listeners(self, tenant_id: UUID, url: str | None, *, secret: str) -> Sequence[UUID]: ...

    def add_delivery(self, tenant_id: UUID, *, delivery_id: UUID, webhook_id: UUID, event: str, body: str) -> None: ...

    def publish_delivery(
        self, tenant_id: UUID, *, delivery_id: UUID, webhook_id: UUID, event: str, body: str, message: Message
    ) -> bool: ...

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
    """Called by several threads at once."""

    def refusal(self, url: str, *, is_looked_up: bool) -> str | None: ...

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer: ...


class WebhookService:
    def __init__(self, rows: Rows, post: Post, clock: Clock) -> None:
        self._rows, self._post, self._clock = rows, post, clock

    def webhooks(self, *, tenant_id: UUID, before: UUID | None, limit: int) -> Sequence[Webhook]:
        return self._rows.webhooks(tenant_id, before=before, limit=limit)

    def register(self, *, tenant_id: UUID, url: str) -> Webhook:
        """The secret is shown now and never again. An address that is known already gets a new one."""
        if (reason := self._post.refusal(url, is_looked_up=True)) is not None:
            raise InvalidRequest("url", reason)
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

    def send_test(self, *, tenant_id: UUID, webhook_id: UUID) -> UUID:
        """A delivery that says nothing, on the way that all others take."""
        delivery_id = ids.new_id()
        body = {
            "type": TEST_EVENT,
            "webhookId": ids.to_wire("whk", webhook_id),
            "at": self._clock.now().isoformat(timespec="milliseconds"),
        }
        is_found = self._rows.publish_delivery(
            tenant_id,
            delivery_id=delivery_id,
            webhook_id=webhook_id,
            event=TEST_EVENT,
            body=json.dumps(body),
            message=_message(tenant_id, delivery_id),
        )
        if not is_found:
            raise NoSuchWebhook
        return delivery_id

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
        return self.deliver_all([(tenant_id, delivery_id)]).get(delivery_id)

    def deliver_all(self, wanted: Sequence[tuple[UUID, UUID]]) -> Mapping[UUID, DeliveryStatus]:
        """Try each once, by tenant and id. The calls run side by side; the database has one user, this thread."""
        taken = [
            (tenant_id, *found) for tenant_id, delivery_id in wanted for found in self._take(tenant_id, delivery_id)
        ]
        if not taken:
            return {}
        statuses: dict[UUID, DeliveryStatus] = {}
        failures: list[Exception] = []
        with ThreadPoolExecutor(min(len(taken), PARALLEL_SENDS), "webhook") as pool:
            sends = {
                pool.submit(self._answer, webhook, delivery): (tenant_id, delivery, webhook is not None)
                for tenant_id, delivery, webhook in taken
            }
            for send in as_completed(sends):
                tenant_id, delivery, is_wanted = sends[send]
                try:
                    statuses[delivery.delivery_id] = self._note(tenant_id, delivery, _result(send), is_wanted=is_wanted)
                except Exception as error:  # noqa: BLE001 (the answers of the others are written first)
                    failures.append(error)
        if failures:
            raise failures[0]
        return statuses

    def _take(self, tenant_id: UUID, delivery_id: UUID) -> Iterator[tuple[Delivery, Webhook | None]]:
        delivery = self._rows.take(tenant_id, delivery_id, lease_s=SEND_LEASE_S)
        if delivery is not None:
            yield delivery, self._rows.webhook(tenant_id, delivery.webhook_id)

    def _note(self, tenant_id: UUID, delivery: Delivery, answer: Answer, *, is_wanted: bool) -> DeliveryStatus:
        tries_left = is_wanted and delivery.attempts <= len(BACKOFF_S)
        if answer.is_taken:
            status, delay_s = DeliveryStatus.DELIVERED, 0
        elif tries_left:
            status, delay_s = DeliveryStatus.PENDING, BACKOFF_S[delivery.attempts - 1]
        else:
            status, delay_s = DeliveryStatus.FAILED, 0
        again = (
            _message(tenant_id, delivery.delivery_id, delay_s)
            if status is DeliveryStatus.PENDING and delay_s <= DELAY_LIMIT_S
            else None
        )
        self._rows.note_answer(tenant_id, delivery, status, answer, again, delay_s)
        metrics.emit("WebhookTries", 1, outcome=status)
        return status

    def _answer(self, webhook: Webhook | None, delivery: Delivery) -> Answer:
        return Answer(None, "the webhook was removed") if webhook is None else self._send(webhook, delivery)

    def _send(self, webhook: Webhook, delivery: Delivery) -> Answer:
        body, timestamp = delivery.body.encode(), int(self._clock.now().timestamp())
        # The same for every try, so that the receiver can drop what it has.
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
    """A fault of ours is a failed try as well: it backs off and ends, and spares the rest of the batch."""
    try:
        return send.result()
    except Exception:
        logger.exception("delivery not sent")
        return Answer(None, "an error on our side")
