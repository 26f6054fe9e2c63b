"""Webhooks and their deliveries in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from artiway import ids
from artiway.delivery.webhooks.model import Answer, Delivery, DeliveryStatus, Webhook, delivery_message
from artiway.outbox.model import Message
from artiway.outbox.repository import Outbox
from artiway.platform import sql
from artiway.platform.database import Database, Row

SQL = sql.load("artiway.delivery.webhooks")
ANSWER_LIMIT = 1_000


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

    def put(self, tenant_id: UUID, *, webhook_id: UUID, url: str, secret: str) -> Webhook:
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["put_webhook"], {"webhook_id": webhook_id, "url": url, "secret": secret})
        assert row is not None
        return Webhook(**row)

    def delete(self, tenant_id: UUID, webhook_id: UUID) -> bool:
        with self._database.tenant_transaction(tenant_id) as tx:
            return tx.run(SQL["delete_webhook"], {"webhook_id": webhook_id}) == 1

    def listeners(self, tenant_id: UUID, url: str | None, *, secret: str) -> Sequence[UUID]:
        with self._database.tenant_transaction(tenant_id) as tx:
            if url is not None:
                tx.run(SQL["imply_webhook"], {"webhook_id": ids.new_id(), "url": url, "secret": secret})
            return [row["webhook_id"] for row in tx.all(SQL["listeners"], {"url": url})]

    def add_delivery(self, tenant_id: UUID, *, delivery_id: UUID, webhook_id: UUID, event: str, body: str) -> None:
        parameters = {"delivery_id": delivery_id, "webhook_id": webhook_id, "event": event, "body": body}
        with self._database.tenant_transaction(tenant_id) as tx:
            tx.run(SQL["insert_delivery"], parameters)

    def publish_delivery(
        self, tenant_id: UUID, *, delivery_id: UUID, webhook_id: UUID, event: str, body: str, message: Message
    ) -> bool:
        with self._database.tenant_transaction(tenant_id) as tx:
            if tx.one(SQL["webhook"], {"webhook_id": webhook_id}) is None:
                return False
            self.add_delivery(tenant_id, delivery_id=delivery_id, webhook_id=webhook_id, event=event, body=body)
            self._outbox.publish(tx, [message])
        return True

    def deliveries(self, tenant_id: UUID, webhook_id: UUID, *, before: UUID | None, limit: int) -> Sequence[Delivery]:
        parameters = {"webhook_id": webhook_id, "before": before, "limit": limit}
        with self._database.tenant_transaction(tenant_id) as tx:
            return [_delivery(row) for row in tx.all(SQL["deliveries"], parameters)]

    def take(self, tenant_id: UUID, delivery_id: UUID, *, lease_s: int) -> Delivery | None:
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["take_delivery"], {"delivery_id": delivery_id, "lease_s": lease_s})
        return _delivery(row) if row else None

    def note_answer(
        self,
        tenant_id: UUID,
        delivery: Delivery,
        status: DeliveryStatus,
        answer: Answer,
        again: Message | None,
        delay_s: int,
    ) -> bool:
        parameters = {
            "delivery_id": delivery.delivery_id,
            "attempts": delivery.attempts,
            "status": status,
            "code": answer.code,
            "answer": answer.text[:ANSWER_LIMIT],
            "delay_s": delay_s,
        }
        with self._database.tenant_transaction(tenant_id) as tx:
            is_noted = tx.run(SQL["note_answer"], parameters) == 1
            if is_noted and again is not None:
                self._outbox.publish(tx, [again])
        return is_noted

    def redeliver(self, tenant_id: UUID, webhook_id: UUID, delivery_id: UUID, message: Message) -> bool:
        with self._database.tenant_transaction(tenant_id) as tx:
            is_found = tx.run(SQL["redeliver"], {"delivery_id": delivery_id, "webhook_id": webhook_id}) == 1
            if is_found:
                self._outbox.publish(tx, [message])
        return is_found


class PostgresDueDeliveries:
    """As `artiway_service`: deliveries of all tenants whose time has come and gone."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database, self._outbox = database, outbox

    def publish(self, *, limit: int) -> int:
        """Put the oldest on the queue again, whose consumers run side by side. A second copy finds nothing due."""
        with self._database.service_transaction() as tx:
            due = tx.all(SQL["due_deliveries"], {"limit": limit})
            self._outbox.publish(tx, [delivery_message(row["tenant_id"], row["delivery_id"]) for row in due])
        return len(due)


def _delivery(row: Row) -> Delivery:
    return Delivery(**{**row, "status": DeliveryStatus(row["status"])})
