"""Webhooks: registered over HTTP, delivered from a queue."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import Field

from artiway import bootstrap
from artiway.delivery.webhooks.model import DeliveryStatus
from artiway.ids import from_wire, to_wire
from artiway.platform import http

if TYPE_CHECKING:
    from artiway.platform.consumer import Received

api = http.Api("webhooks", origin=bootstrap.origin, access_check=bootstrap.access_check)


class NewWebhookBody(http.Wire):
    url: str = Field(
        min_length=10,
        max_length=2_000,
        pattern=r"^[Hh][Tt][Tt][Pp][Ss]?://[\x21-\x7E]+$",
        description="http or https, a public host in ASCII (`xn--` for other scripts), no user information",
    )


class WebhookBody(http.Wire):
    webhook_id: str
    url: str
    is_implied: bool = Field(description="named by a task and not registered: receives only the tasks that name it")
    created_at: datetime


class CreatedWebhookBody(WebhookBody):
    secret: str = Field(description="signs deliveries; shown this once")


class WebhooksBody(http.Wire):
    items: list[WebhookBody]
    next_cursor: str | None


class DeliveryBody(http.Wire):
    delivery_id: str
    event: str
    status: DeliveryStatus
    attempts: int
    next_try_at: datetime | None
    answer_code: int | None
    answer: str | None
    created_at: datetime
    delivered_at: datetime | None
    body: str


class DeliveriesBody(http.Wire):
    items: list[DeliveryBody]
    next_cursor: str | None


Cursor = Annotated[str | None, Query(max_length=64)]
Limit = Annotated[int, Query(ge=1, le=100)]


@api.get("/webhooks", permission="webhook.manage")
def list_webhooks(cursor: Cursor = None, limit: Limit = 50) -> WebhooksBody:
    """The addresses that are called when a task has ended."""
    found = bootstrap.webhooks().webhooks(
        tenant_id=api.identity.tenant_id, before=http.place_of(cursor), limit=limit + 1
    )
    next_place = found[limit - 1].webhook_id if len(found) > limit else None
    items = [
        WebhookBody(
            webhook_id=to_wire("whk", one.webhook_id),
            url=one.url,
            is_implied=one.is_implied,
            created_at=one.created_at,
        )
        for one in found[:limit]
    ]
    return WebhooksBody(items=items, next_cursor=http.cursor_of(next_place))


@api.post("/webhooks", permission="webhook.manage", status=201)
def create_webhook(body: NewWebhookBody) -> tuple[CreatedWebhookBody, int]:
    """Send every ended task to an address. A known address gets a new secret. A tenant has 20 at most, by default."""
    made = bootstrap.webhooks().register(tenant_id=api.identity.tenant_id, url=body.url)
    return (
        CreatedWebhookBody(
            webhook_id=to_wire("whk", made.webhook_id),
            url=made.url,
            is_implied=made.is_implied,
            created_at=made.created_at,
            secret=made.secret,
        ),
        201,
    )


@api.delete("/webhooks/<webhook_id>", permission="webhook.manage", status=204)
def delete_webhook(webhook_id: str) -> tuple[None, int]:
    """Stop calling this address."""
    bootstrap.webhooks().remove(tenant_id=api.identity.tenant_id, webhook_id=from_wire("whk", webhook_id))
    return None, 204


@api.get("/webhooks/<webhook_id>/deliveries", permission="webhook.manage")
def list_deliveries(webhook_id: str, cursor: Cursor = None, limit: Limit = 50) -> DeliveriesBody:
    """The deliveries to an address, with its answers."""
    found = bootstrap.webhooks().deliveries(
        tenant_id=api.identity.tenant_id,
        webhook_id=from_wire("whk", webhook_id),
        before=http.place_of(cursor),
        limit=limit + 1,
    )
    next_place = found[limit - 1].delivery_id if len(found) > limit else None
    items = [
        DeliveryBody(
            delivery_id=to_wire("dlv", one.delivery_id),
            event=one.event,
            status=one.status,
            attempts=one.attempts,
            next_try_at=one.next_try_at if one.status is DeliveryStatus.PENDING else None,
            answer_code=one.answer_code,
            answer=one.answer,
            created_at=one.created_at,
            delivered_at=one.delivered_at,
            body=one.body,
        )
        for one in found[:limit]
    ]
    return DeliveriesBody(items=items, next_cursor=http.cursor_of(next_place))


@api.post("/webhooks/<webhook_id>/deliveries/<delivery_id>/redeliver", permission="webhook.manage", status=202)
def redeliver(webhook_id: str, delivery_id: str) -> tuple[dict[str, str], int]:
    """Send it again, starting with the first attempt."""
    bootstrap.webhooks().redeliver(
        tenant_id=api.identity.tenant_id,
        webhook_id=from_wire("whk", webhook_id),
        delivery_id=from_wire("dlv", delivery_id),
    )
    return {"deliveryId": delivery_id}, 202


@api.post("/webhooks/<webhook_id>/test", permission="webhook.manage", status=202)
def send_test(webhook_id: str) -> tuple[dict[str, str], int]:
    """Send an event of type `webhook.test`, signed and retried as any other. Its delivery is in the log."""
    delivery_id = bootstrap.webhooks().send_test(
        tenant_id=api.identity.tenant_id, webhook_id=from_wire("whk", webhook_id)
    )
    return {"deliveryId": to_wire("dlv", delivery_id)}, 202


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    if "Records" in event:
        from artiway.platform.consumer import consume_batch  # a request does not pay for Powertools' batch types

        return consume_batch(event, _deliver_all, decode=_delivery)
    return api.handler(event, context)


def _delivery(message: Received) -> tuple[UUID, UUID]:
    from artiway.platform.consumer import PoisonMessage

    try:
        return UUID(message.data["tenantId"]), UUID(message.data["deliveryId"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PoisonMessage(f"not a delivery: {error}") from error


def _deliver_all(wanted: list[tuple[UUID, UUID]]) -> None:
    bootstrap.webhooks().deliver_all(wanted)
