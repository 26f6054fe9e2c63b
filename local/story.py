"""The order in which nodes of two tenants started, and the reason, derived from the events of both tenants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Start:
    """A node that started. It became ready when the last node that it depends on was done."""

    tenant: str
    node: str
    type: str
    at: datetime
    ready_at: datetime

    def __str__(self) -> str:
        return f"{self.tenant}:{self.node}"


def starts_of(tenant: str, view: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> list[Start]:
    """The starts of one task's nodes. A node that was retried counts with its first start."""
    began: dict[str, datetime] = {}
    done: dict[str, datetime] = {}
    submitted_at = datetime.fromisoformat(view["createdAt"])
    for event in events:
        node, at = event.get("node"), datetime.fromisoformat(event["at"])
        if node and event["type"] == "task.started":
            began[node] = min(at, began.get(node, at))
        elif node and event["type"] == "task.completed":
            done[node] = at
    return [
        Start(
            tenant,
            node["name"],
            node["type"],
            began[node["name"]],
            max((done[name] for name in node["dependsOn"] if name in done), default=submitted_at),
        )
        for node in view["nodes"]
        if node["name"] in began
    ]


def order(starts: Sequence[Start]) -> dict[str, list[Start]]:
    """The starts by node type, oldest first. Each type has one worker in the demo."""
    sorted_starts = sorted(starts, key=lambda start: start.at)
    types = dict.fromkeys(start.type for start in sorted_starts)
    return {kind: [start for start in sorted_starts if start.type == kind] for kind in types}


def reasons(starts: Sequence[Start], *, heavy: str, light: str) -> list[str]:
    """One sentence for each node of the light tenant that started before a node of the heavy tenant."""
    sentences = []
    for row in order(starts).values():
        for index, start in enumerate(row):
            passed = [later for later in row[index + 1 :] if later.tenant == heavy]
            if start.tenant != light or not passed:
                continue
            waiting = [later for later in passed if later.ready_at <= start.at]
            if not waiting:
                sentences.append(f"{start} went before {passed[0]}, which was not ready: a free worker does not wait.")
                continue
            since_s = (start.at - min(later.ready_at for later in waiting)).total_seconds()
            sentences.append(
                f"{start} went before {waiting[0]}, which was ready {since_s:.1f} s earlier: either the worker was free"
                f" while it was not yet in the queue, or the fair queue chose {light} next."
            )
    return sentences or [f"On every worker {heavy}'s nodes went before {light}'s."]
