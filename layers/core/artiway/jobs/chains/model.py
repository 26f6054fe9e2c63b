"""Jobs that run after others: the ends that they wait for, the text of predecessors in a body, circles. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from artiway import ids
from artiway.errors import Conflict
from artiway.jobs.model import RunKind, RunState

PREDECESSORS = 20
# Each stands for an answer of up to 4,000 characters, and the body must fit into a message.
PLACEHOLDERS = 10
_PLACEHOLDER = re.compile(r"\{\{\s*predecessor(?:\.(job_[0-9a-f]{32}))?\.(answer|httpStatus|runId)\s*\}\}")


class EndedRun(NamedTuple):
    """A run for which others may wait."""

    tenant_id: UUID
    job_id: UUID
    run_id: UUID
    scheduled_at: datetime
    state: RunState


class Predecessor(NamedTuple):
    """What a predecessor did at a scheduled time. Without a run all but the job is None."""

    job_id: UUID
    run_id: UUID | None
    state: RunState | None
    kind: RunKind | None
    http_status: int | None
    answer: str | None

    def as_data(self) -> dict[str, Any]:
        assert self.run_id is not None
        return {
            "jobId": ids.to_wire("job", self.job_id),
            "runId": ids.to_wire("run", self.run_id),
            "httpStatus": self.http_status,
            "answer": self.answer,
        }


class HasSuccessors(Conflict):
    code = "JOB_409_HAS_SUCCESSORS"

    def __init__(self, jobs: Sequence[str]) -> None:
        super().__init__("jobs run after this one; change or delete them first", jobs=list(jobs))


def placeholders(body: Any) -> list[str]:
    """The jobs that a body's placeholders name; an empty text stands for the first predecessor."""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return [found.group(1) or "" for found in _PLACEHOLDER.finditer(text)]


def rendered(body: Any, predecessors: Sequence[Mapping[str, Any]] | None) -> Any:
    """The body with the answers of predecessors: `{{predecessor.answer}}` is that of the first, and
    `{{predecessor.job_….answer}}` of a named one. Inside JSON only texts change, so it stays valid."""
    if not predecessors:
        return body
    return filled(body, lambda text: _PLACEHOLDER.sub(lambda found: _value(found, predecessors), text))


def filled(body: Any, fill: Callable[[str], str]) -> Any:
    """The body with each text filled; the names of a JSON object stay."""
    if isinstance(body, str):
        return fill(body)
    if isinstance(body, Mapping):
        return {name: filled(item, fill) for name, item in body.items()}
    if isinstance(body, list):
        return [filled(item, fill) for item in body]
    return body


def _value(found: re.Match[str], predecessors: Sequence[Mapping[str, Any]]) -> str:
    job, field = found.groups()
    known = next((one for one in predecessors if job is None or one["jobId"] == job), None)
    value = None if known is None else known.get(field)
    return "" if value is None else str(value)


def circle(edges: Iterable[tuple[UUID, UUID]], job_id: UUID, predecessors: Sequence[UUID]) -> list[UUID]:
    """The jobs of a circle that `job_id` would close with these predecessors, or nothing. `edges` are (job, its
    predecessor)."""
    before: dict[UUID, list[UUID]] = {}
    for job, predecessor in edges:
        before.setdefault(job, []).append(predecessor)
    before[job_id] = list(predecessors)
    path, seen = [job_id], set[UUID]()
    places = [iter(before[job_id])]
    while places:
        following = next(places[-1], None)
        if following is None:
            places.pop()
            path.pop()
        elif following == job_id:
            return [*path, job_id]
        elif following not in seen:
            seen.add(following)
            path.append(following)
            places.append(iter(before.get(following, ())))
    return []
