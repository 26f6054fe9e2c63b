"""Tells other systems that a task is over: signed, tried again with growing waits, every try on record."""

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
from artiway.outbox.model import Message
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.tasks.model import InvalidRequest, Task
from artiway.tasks.work import Work

logger = Logger("webhooks")
EVENT = "task.settled"
TEST_EVENT = "webhook.test"
DELAY_LIMIT_S = 900  # SQS takes no more; after a longer delay the watchdog publishes the delivery
SEND_LEASE_S = 60
PARALLEL_SENDS = 50  # a batch of the queue: the function's time covers one call, not one after another
# One call takes parked deliveries for so long. The last of them may take as long as an address may, and the
# function's time-out is longer than both together.
KEEP_SENDING_S = 1.0


Send = tuple[UUID, Delivery, bool]  # tenant, delivery, whether its webhook still exists


class Rows(Protocol):
    """Each method is one transaction, or a part of the caller's."""

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
        again: Message | None,
        *,
        delay_s: int,
        next_lease_s: int | None,
    ) -> Delivery | None:
        """Take a parked delivery of the tenant in its place, or publish one if there is no time for it."""

    def redeliver(self, tenant_id: UUID, webhook_id: UUID, delivery_id: UUID, message: Message) -> bool: ...


class Post(Protocol):
    """Called by several threads at once."""

    def refusal(self, url: str, *, is_looked_up: bool) -> str | None: ...

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer: ...


class WebhookService:
    def __init__(self, rows: Rows, post: Post, clock: Clock, limits: Limits) -> None:
        self._rows, self._post, self._clock, self._limits = rows, post, clock, limits

    def webhooks(self, *, tenant_id: UUID, before: UUID | None, limit: int) -> Sequence[Webhook]:
        return self._rows.webhooks(tenant_id, before=before, limit=limit)

    def register(self, *, tenant_id: UUID, url: str) -> Webhook:
        """The secret is shown now and never again. An address that is known already gets a new one."""
        if (reason := self._post.refusal(url, is_looked_up=True)) is not None:
            raise InvalidRequest("url", reason)
        limit = self._limits.registered
        made = self._rows.put(tenant_id, webhook_id=ids.new_id(), url=url, secret=new_secret(), limit=limit)
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
            message=messages.deliver(tenant_id, delivery_id),
        )
        if not is_found:
            raise NoSuchWebhook
        return delivery_id

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
        return self._rows.fan_out(settled, event=EVENT, secret=new_secret(), limits=self._limits)

    def deliver(self, *, tenant_id: UUID, delivery_id: UUID) -> DeliveryStatus | None:
        """Try it once, then deliveries of the tenant that are parked.

        None: it is not due, or the tenant has enough sends; then it is parked until one of them ends.
        """
        return self.deliver_all([(tenant_id, delivery_id)]).get(delivery_id)

    def deliver_all(self, wanted: Sequence[tuple[UUID, UUID]]) -> Mapping[UUID, DeliveryStatus]:
        """Try each once, by tenant and id. The calls run side by side; only this thread uses the database."""
        began = self._clock.now()
        taken = [
            (tenant_id, delivery)
            for tenant_id, delivery_id in wanted
            if (delivery := self._rows.take(tenant_id, delivery_id, lease_s=SEND_LEASE_S, sends=self._limits.sends))
        ]
        if not taken:
            return {}
        statuses: dict[UUID, DeliveryStatus] = {}
        failures: list[Exception] = []
        with ThreadPoolExecutor(min(len(taken), PARALLEL_SENDS), "webhook") as pool:
            sends: dict[Future[Answer], Send] = {}

            def start(tenant_id: UUID, delivery: Delivery) -> None:
                webhook = self._rows.webhook(tenant_id, delivery.webhook_id)
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
                    except Exception as error:  # noqa: BLE001 (the answers of the others are written first)
                        failures.append(error)
        if failures:
            raise failures[0]
        return statuses

    def _note(
        self, tenant_id: UUID, delivery: Delivery, answer: Answer, *, is_wanted: bool, is_time_left: bool
    ) -> tuple[DeliveryStatus, Delivery | None]:
        """Write the answer, and take the tenant's next parked delivery in the same transaction."""
        if answer.is_taken:
            status, delay_s = DeliveryStatus.DELIVERED, 0
        elif is_wanted and delivery.attempts <= len(BACKOFF_S):
            status, delay_s = DeliveryStatus.PENDING, BACKOFF_S[delivery.attempts - 1]
        else:
            status, delay_s = DeliveryStatus.FAILED, 0
        is_again = status is DeliveryStatus.PENDING and delay_s <= DELAY_LIMIT_S
        parked = self._rows.note_answer(
            tenant_id,
            delivery,
            status,
            answer,
            messages.deliver(tenant_id, delivery.delivery_id, delay_s) if is_again else None,
            delay_s=delay_s,
            next_lease_s=SEND_LEASE_S if is_time_left else None,
        )
        metrics.emit("WebhookTries", 1, outcome=status)
        return status, parked

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
