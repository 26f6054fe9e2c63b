"""The events of tasks and texts, as streams: each is sent when it happens. A stream ends after a minute."""

from __future__ import annotations

from collections.abc import Generator

from artiway import bootstrap
from artiway.delivery.feed.model import EntryId
from artiway.generations.feed.model import EntryId as TextEntryId
from artiway.ids import from_wire
from artiway.platform import openapi, streams

api = streams.StreamApi(
    "tasks", origin=bootstrap.origin, access_check=bootstrap.access_check, authorizer=bootstrap.authorizer
)
api.fallback(openapi.explain_missing)
handler = api.stream


@api.get("/tasks/<task_id>/events", permission="task.read", media=streams.MEDIA)
def get_task_events(task_id: str) -> Generator[str, None, None]:
    """Server-sent events as they happen. A stream ends after a while; the client continues with Last-Event-ID."""
    return bootstrap.task_events().frames(
        tenant_id=api.identity.tenant_id,
        user_id=api.identity.user_id,
        task_id=from_wire("task", task_id),
        last=EntryId.parse(api.last_event_id),
        life_ms=min(bootstrap.settings().stream_life_ms, api.remaining_ms),
    )


@api.get("/generations/<generation_id>/events", permission="task.read", media=streams.MEDIA)
def get_generation_events(generation_id: str) -> Generator[str, None, None]:
    """Server-sent events of a text while it is written; without Last-Event-ID the text so far comes first."""
    return bootstrap.generation_events().frames(
        tenant_id=api.identity.tenant_id,
        user_id=api.identity.user_id,
        generation_id=from_wire("gen", generation_id),
        last=TextEntryId.parse(api.last_event_id),
        life_ms=min(bootstrap.settings().stream_life_ms, api.remaining_ms),
    )
