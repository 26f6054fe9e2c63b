"""A task's events: answers with those after the last one that the client received, or waits a while for the next."""

from __future__ import annotations

from aws_lambda_powertools.event_handler import Response

from artiway import bootstrap
from artiway.delivery.feed.model import EntryId, as_text
from artiway.ids import from_wire
from artiway.platform import http

api = http.Api("tasks", origin=bootstrap.origin, access_check=bootstrap.access_check)
handler = api.handler

# A client that has received every event need not reconnect soon.
OVER_RETRY_MS = 60_000


@api.get("/tasks/<task_id>/events", permission="task.read", media="text/event-stream")
def get_task_events(task_id: str) -> Response[str]:
    """Server-sent events. The answer ends after a while; EventSource then reconnects with Last-Event-ID."""
    settings = bootstrap.settings()
    last = EntryId.parse(api.event.get("headers", {}).get("last-event-id"))
    events = bootstrap.task_events().read(
        tenant_id=api.identity.tenant_id,
        user_id=api.identity.user_id,
        task_id=from_wire("task", task_id),
        last=last,
        wait_ms=settings.events_wait_ms,
    )
    retry_ms = OVER_RETRY_MS if events is None else settings.events_retry_ms
    return Response(
        status_code=200,
        content_type="text/event-stream; charset=utf-8",
        headers={"cache-control": "no-store"},
        body=as_text(events or [], retry_ms=retry_ms),
    )
