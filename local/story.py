"""Who went first on which worker, and why: told from the events that both tenants were sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Start:
    """A node that began. It was ready since the last of what it depends on was done."""

    letter: str
    node: str
    type: str
    at: datetime
    ready_at: datetime

    def __str__(self) -> str:
        return f"{self.letter}:{self.node}"


def starts_of(letter: str, view: Mapping[str, Any], told: Iterable[Mapping[str, Any]]) -> list[Start]:
    """Of one task. A node that was tried twice began when it first did."""
    began: dict[str, datetime] = {}
    done: dict[str, datetime] = {}
    asked_at = datetime.fromisoformat(view["createdAt"])
    for message in told:
        node, at = message.get("node"), datetime.fromisoformat(message["at"])
        if node and message["type"] == "task.started":
            began[node] = min(at, began.get(node, at))
        elif node and message["type"] == "task.completed":
            done[node] = at
    return [
        Start(
            letter,
            node["name"],
            node["type"],
            began[node["name"]],
            max((done[name] for name in node["dependsOn"] if name in done), default=asked_at),
        )
        for node in view["nodes"]
        if node["name"] in began
    ]


def order(starts: Sequence[Start]) -> dict[str, list[Start]]:
    """By type, which is by worker where each type has one."""
    sorted_starts = sorted(starts, key=lambda start: start.at)
    types = dict.fromkeys(start.type for start in sorted_starts)
    return {kind: [start for start in sorted_starts if start.type == kind] for kind in types}


def reasons(starts: Sequence[Start], *, heavy: str, light: str) -> list[str]:
    """A sentence for each node of the light tenant that went before one of the heavy tenant's."""
    told = []
    for row in order(starts).values():
        for place, start in enumerate(row):
            passed = [later for later in row[place + 1 :] if later.letter == heavy]
            if start.letter != light or not passed:
                continue
            waiting = [later for later in passed if later.ready_at <= start.at]
            if not waiting:
                told.append(f"{start} went before {passed[0]}: that was not ready, and a free worker waits for nobody.")
                continue
            since_s = (start.at - min(later.ready_at for later in waiting)).total_seconds()
            told.append(
                f"{start} went before {waiting[0]}, whose turn could have come {since_s:.1f} s earlier: either it was"
                f" still on its way to the queue and the worker free, or the clock gave {light} its turn."
            )
    return told or [f"On every worker {heavy}'s nodes went before {light}'s."]
