"""Calls webhooks when a task has ended: signed, retried with growing delays, each attempt recorded."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
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
    Try,
    Webhook,
    new_secret,
    signature,
    standard_signature,
)
from artiway.events import Event
from artiway.outbox.model import Message
from artiway.platform import metrics, tracing
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
# Answers are stored together at this interval, so that a slow address delays the record of no other.
NOTE_INTERVAL_S = 0.2


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

    def webhooks_by_id(self, tenant_id: UUID, webhook_ids: Collection[UUID]) -> Mapping[UUID, Webhook]: ...

    def take(self, tenant_id: UUID, delivery_ids: Sequence[UUID], *, lease_s: int, sends: int) -> Sequence[Delivery]:
        """Claim those that are due, while the tenant has fewer than `sends`; the others are parked."""

    def note_answers(
        self,
        tenant_id: UUID,
        tries: Sequence[Try],
        retries: Mapping[UUID, Message],
        *,
        next_lease_s: int | None,
        sends: int,
    ) -> Sequence[Delivery]:
        """Also claims parked deliveries of the tenant, or publishes them if there is no time to send them."""

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
        """Send each once, by tenant and id. The calls run in parallel; only this thread uses the database.

        Deliveries of one tenant are claimed, and their answers stored, in one transaction for many: a tenant with
        many webhooks costs the others little.
        """
        began = self._clock.now()
        by_tenant: dict[UUID, list[UUID]] = defaultdict(list)
        for tenant_id, delivery_id in wanted:
            by_tenant[tenant_id].append(delivery_id)
        statuses: dict[UUID, DeliveryStatus] = {}
        failures: list[Exception] = []
        sends: dict[Future[Answer], Send] = {}
        with ThreadPoolExecutor(PARALLEL_SENDS, "webhook") as pool:

            def start(tenant_id: UUID, deliveries: Sequence[Delivery]) -> None:
                if not deliveries:
                    return
                webhooks = self._store.webhooks_by_id(tenant_id, {one.webhook_id for one in deliveries})
                for delivery in deliveries:
                    webhook = webhooks.get(delivery.webhook_id)
                    sends[pool.submit(self._answer, webhook, delivery)] = (tenant_id, delivery, webhook is not None)

            for tenant_id, delivery_ids in by_tenant.items():
                start(
                    tenant_id,
                    self._store.take(tenant_id, delivery_ids, lease_s=SEND_LEASE_S, sends=self._limits.sends),
                )
            while sends:
                ended, _ = wait(sends, timeout=NOTE_INTERVAL_S)
                tries: dict[UUID, list[Try]] = defaultdict(list)
                for send in ended:
                    tenant_id, delivery, is_wanted = sends.pop(send)
                    tries[tenant_id].append(_try(delivery, _result(send), is_wanted=is_wanted))
                is_time_left = (self._clock.now() - began).total_seconds() < KEEP_SENDING_S
                for tenant_id, made in tries.items():
                    try:
                        start(tenant_id, self._note(tenant_id, made, is_time_left=is_time_left))
                    except Exception as error:  # noqa: BLE001 (the answers of the other tenants are stored first)
                        failures.append(error)
                    else:
                        statuses.update((one.delivery.delivery_id, one.status) for one in made)
        if failures:
            raise failures[0]
        return statuses

    def _note(self, tenant_id: UUID, tries: Sequence[Try], *, is_time_left: bool) -> Sequence[Delivery]:
        """Store the answers, and claim the tenant's next parked deliveries in the same transaction."""
        retries = {
            one.delivery.delivery_id: messages.deliver(
                tenant_id, one.delivery.delivery_id, one.delay_s, trace_id=one.delivery.trace_id
            )
            for one in tries
            if one.status is DeliveryStatus.PENDING and one.delay_s <= DELAY_LIMIT_S
        }
        parked = self._store.note_answers(
            tenant_id,
            tries,
            retries,
            next_lease_s=SEND_LEASE_S if is_time_left else None,
            sends=self._limits.sends,
        )
        for one in tries:
            delivery = one.delivery
            logger.info(
                "delivery tried",
                trace_id=delivery.trace_id or tracing.current(),
                delivery_id=str(delivery.delivery_id),
                attempt=delivery.attempts,
                status=one.status,
                answer_code=one.answer.code,
            )
        for status, count in Counter(one.status for one in tries).items():
            metrics.emit("WebhookTries", count, outcome=status)
        return parked

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
            **({"X-Trace-Id": delivery.trace_id} if delivery.trace_id else {}),
        }
        return self._post.post(webhook.url, body, headers)


def _try(delivery: Delivery, answer: Answer, *, is_wanted: bool) -> Try:
    if answer.is_taken:
        return Try(delivery, DeliveryStatus.DELIVERED, answer)
    if is_wanted and delivery.attempts <= len(BACKOFF_S):
        return Try(delivery, DeliveryStatus.PENDING, answer, BACKOFF_S[delivery.attempts - 1])
    return Try(delivery, DeliveryStatus.FAILED, answer)


def _result(send: Future[Answer]) -> Answer:
    """An error on our side counts as a failed attempt, so that the delivery is retried and the batch goes on."""
    try:
        return send.result()
    except Exception:
        logger.exception("delivery not sent")
        return Answer(None, "an error on our side")
