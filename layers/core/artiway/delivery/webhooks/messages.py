"""Messages of webhooks: one for each ended task, one for each attempt of a delivery."""

from __future__ import annotations

from uuid import UUID

from artiway.delivery.webhooks.model import SettledTask
from artiway.outbox.model import Message

DELIVERIES = "webhook"
FAN_OUT = "webhook_fanout"


def fan_out(settled: SettledTask) -> Message:
    """The tenant is the message group, so that the queue is fair between tenants."""
    return Message(FAN_OUT, f"fanout:{settled.task_id}", "task_settled", settled.as_data(), 0, settled.tenant_id)


def deliver(tenant_id: UUID, delivery_id: UUID, delay_s: int = 0, *, trace_id: str | None = None) -> Message:
    data = {"tenantId": str(tenant_id), "deliveryId": str(delivery_id)}
    return Message(DELIVERIES, f"delivery:{delivery_id}", "deliver", data, delay_s, tenant_id, trace_id or "")
