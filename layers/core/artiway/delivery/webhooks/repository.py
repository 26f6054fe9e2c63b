"""Webhooks and their deliveries in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from artiway import ids
from artiway.delivery.webhooks import messages
from artiway.delivery.webhooks.model import Delivery, DeliveryStatus, Limits, SettledTask, Try, Webhook
from artiway.outbox.model import Message
from artiway.outbox.repository import Outbox
from artiway.platform import sql
from artiway.platform.database import Database, Row, Transaction

SQL = sql.load("artiway.delivery.webhooks")
ANSWER_LIMIT = 1_000
# The number of deliveries that one message creates. It bounds the transaction and its locks, also for a tenant that
# registered many webhooks before there was a limit.
FAN_OUT_BATCH = 100
NOT_TRIED = "not tried: the tenant has too many pending deliveries"


class PostgresWebhooks:
    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database, self._outbox = database, outbox

    def webhooks(self, tenant_id: UUID, *, before: UUID | None, limit: int) -> Sequence[Webhook]:
        with self._database.tenant_transaction(tenant_id) as tx:
            return [Webhook(**row) for row in tx.all(SQL["webhooks"], {"before": before, "limit": limit})]

    def webhook(self, tenant_id: UUID, webhook_id: UUID) -> Webhook | None:
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["webhook"], {"webhook_id": webhook_id})
        return Webhook(**row) if row else None

    def put(self, tenant_id: UUID, *, webhook_id: UUID, url: str, secret: str, limit: int) -> Webhook | None:
        parameters = {"webhook_id": webhook_id, "url": url, "secret": secret, "limit": limit}
        with self._database.tenant_transaction(tenant_id) as tx:
            tx.run(SQL["lock_webhooks"])
            row = tx.one(SQL["put_webhook"], parameters)
        return Webhook(**row) if row else None

    def delete(self, tenant_id: UUID, webhook_id: UUID) -> bool:
        with self._database.tenant_transaction(tenant_id) as tx:
            return tx.run(SQL["delete_webhook"], {"webhook_id": webhook_id}) == 1

    def has_registered(self, tenant_id: UUID) -> bool:
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["has_registered"])
        return row is not None and bool(row["is_found"])

    def fan_out(self, settled: SettledTask, *, event: str, secret: str, limits: Limits) -> int:
        with self._database.tenant_transaction(settled.tenant_id) as tx:
            is_new = settled.webhook_url is not None and self._imply(tx, settled, secret)
            row = tx.one(
                SQL["fan_out"],
                {
                    "url": settled.webhook_url,
                    "after": settled.after,
                    "limit": FAN_OUT_BATCH,
                    "pending_limit": limits.pending,
                    "sends": limits.sends,
                    # Ids rise with time, and the log is read in their order.
                    "delivery_ids": [ids.new_id() for _ in range(FAN_OUT_BATCH)],
                    "event": event,
                    "body": settled.body,
                    "task_id": settled.task_id,
                    "run": settled.run,
                    "refusal": NOT_TRIED,
                },
            )
            assert row is not None
            if is_new:
                tx.run(SQL["evict_implied"], {"limit": limits.implied})
            published = [messages.deliver(settled.tenant_id, delivery_id) for delivery_id in row["delivery_ids"]]
            if row["listeners"] == FAN_OUT_BATCH:
                published.append(messages.fan_out(replace(settled, after=row["last_webhook_id"])))
            self._outbox.publish(tx, published)
        return int(row["created"])

    @staticmethod
    def _imply(tx: Transaction, settled: SettledTask, secret: str) -> bool:
        """Under the lock, so that no other transaction evicts the webhook before it has its delivery."""
        tx.run(SQL["lock_webhooks"])
        parameters = {"webhook_id": ids.new_id(), "url": settled.webhook_url, "secret": secret}
        return tx.run(SQL["imply_webhook"], {**parameters, "task_id": settled.task_id, "run": settled.run}) == 1

    def publish_delivery(
        self, tenant_id: UUID, *, delivery_id: UUID, webhook_id: UUID, event: str, body: str, message: Message
    ) -> bool:
        with self._database.tenant_transaction(tenant_id) as tx:
            if tx.one(SQL["webhook"], {"webhook_id": webhook_id}) is None:
                return False
            tx.run(
                SQL["insert_delivery"],
                {"delivery_id": delivery_id, "webhook_id": webhook_id, "event": event, "body": body},
            )
            self._outbox.publish(tx, [message])
        return True

    def deliveries(self, tenant_id: UUID, webhook_id: UUID, *, before: UUID | None, limit: int) -> Sequence[Delivery]:
        parameters = {"webhook_id": webhook_id, "before": before, "limit": limit}
        with self._database.tenant_transaction(tenant_id) as tx:
            return [_delivery(row) for row in tx.all(SQL["deliveries"], parameters)]

    def webhooks_by_id(self, tenant_id: UUID, webhook_ids: Collection[UUID]) -> dict[UUID, Webhook]:
        with self._database.tenant_transaction(tenant_id) as tx:
            rows = tx.all(SQL["webhooks_by_id"], {"webhook_ids": list(webhook_ids)})
        return {row["webhook_id"]: Webhook(**row) for row in rows}

    def take(self, tenant_id: UUID, delivery_ids: Sequence[UUID], *, lease_s: int, sends: int) -> list[Delivery]:
        with self._database.tenant_transaction(tenant_id) as tx:
            tx.run(SQL["lock_sends"])
            return self._take(tx, delivery_ids, lease_s=lease_s, sends=sends)

    @staticmethod
    def _take(tx: Transaction, delivery_ids: Sequence[UUID], *, lease_s: int, sends: int) -> list[Delivery]:
        wanted = {"delivery_ids": list(delivery_ids)}
        rows = tx.all(SQL["take_deliveries"], {**wanted, "lease_s": lease_s, "sends": sends})
        if len(rows) < len(delivery_ids):
            tx.run(SQL["park_deliveries"], wanted)
        return [_delivery(row) for row in rows]

    def note_answers(
        self,
        tenant_id: UUID,
        tries: Sequence[Try],
        retries: Mapping[UUID, Message],
        *,
        next_lease_s: int | None,
        sends: int,
    ) -> list[Delivery]:
        with self._database.tenant_transaction(tenant_id) as tx:
            tx.run(SQL["lock_sends"])
            noted = tx.all(SQL["note_answers"], {"tries": json.dumps([_row(one) for one in tries])})
            published = [retries[row["delivery_id"]] for row in noted if row["delivery_id"] in retries]
            # As many as have ended: they take over their share.
            parked = [row["delivery_id"] for row in tx.all(SQL["unpark_deliveries"], {"limit": len(tries)})]
            taken: list[Delivery] = []
            if parked and next_lease_s is not None:
                taken = self._take(tx, parked, lease_s=next_lease_s, sends=sends)
            else:
                published += [messages.deliver(tenant_id, delivery_id) for delivery_id in parked]
            self._outbox.publish(tx, published)
        return taken

    def redeliver(self, tenant_id: UUID, webhook_id: UUID, delivery_id: UUID, message: Message) -> bool:
        with self._database.tenant_transaction(tenant_id) as tx:
            is_found = tx.run(SQL["redeliver"], {"delivery_id": delivery_id, "webhook_id": webhook_id}) == 1
            if is_found:
                self._outbox.publish(tx, [message])
        return is_found


class PostgresDueDeliveries:
    """As `artiway_service`: overdue deliveries of all tenants."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database, self._outbox = database, outbox

    def publish(self, *, limit: int, tenant_limit: int) -> int:
        """Publish a message for each. A message of a delivery that succeeded meanwhile changes nothing."""
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["due_deliveries"], {"limit": limit, "tenant_limit": tenant_limit})
            self._outbox.publish(
                tx,
                [messages.deliver(row["tenant_id"], row["delivery_id"], trace_id=row["trace_id"]) for row in rows],
            )
        return len(rows)


def _row(one: Try) -> dict[str, Any]:
    return {
        "delivery_id": str(one.delivery.delivery_id),
        "attempts": one.delivery.attempts,
        "status": one.status,
        "code": one.answer.code,
        "answer": one.answer.text[:ANSWER_LIMIT],
        "delay_s": one.delay_s,
    }


def _delivery(row: Row) -> Delivery:
    return Delivery(**{**row, "status": DeliveryStatus(row["status"])})
