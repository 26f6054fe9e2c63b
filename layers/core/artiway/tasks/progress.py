"""Reports of workers, in batches: reduced to the newest per attempt, pushed at once, stored once per interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.errors import Unavailable
from artiway.events import Event
from artiway.outbox.model import Message
from artiway.platform import metrics, tracing
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.tasks import messages
from artiway.tasks.lifecycle import NodeService
from artiway.tasks.model import Node, Report, ReportKind
from artiway.tasks.transaction import TaskStore

logger = Logger("progress")
CACHED = 10_000
LISTENER_S = 2  # how long a cached answer is used


class Stream(Protocol):
    def note_progress(self, report: Report, node: str, body: dict[str, Any]) -> str:
        """ "write": store it in the database too; "noted"; "late": a newer report was noted before."""


class Progress:
    """`push` sends progress to a user's sockets. It may fail: the next progress replaces the lost one."""

    def __init__(
        self,
        store: TaskStore,
        nodes: NodeService,
        stream: Stream,
        clock: Clock,
        *,
        push: Callable[[UUID, UUID, Mapping[str, Any]], None],
    ) -> None:
        self._store, self._nodes, self._stream, self._clock, self._push = store, nodes, stream, clock, push
        self._known: dict[UUID, Node] = {}
        self._listeners: dict[UUID, tuple[datetime, bool]] = {}

    def handle(self, reports: Sequence[Report]) -> list[Report]:
        """Returns the reports that failed; their messages are delivered again."""
        failed: list[Report] = []
        with self._store.batch():
            for report in fold(reports):
                try:
                    with tracing.traced(report.trace_id):
                        self._handle(report)
                except Exception:
                    logger.exception("report failed", node_id=str(report.node_id), kind=report.kind)
                    failed.append(report)
        metrics.emit("ReportsFolded", len(reports))
        return failed

    def _handle(self, report: Report) -> None:
        if report.kind is ReportKind.STARTED:
            return  # the claim has published it
        if not report.kind.is_terminal:
            self._note(report)
        elif not self._nodes.settle_report(report):
            metrics.emit("ReportsStale", 1)

    def _note(self, report: Report) -> None:
        node = self._node(report)
        if node is None:
            return
        body = {
            "type": Event.TASK_PROGRESS,
            "taskId": ids.to_wire("task", report.task_id),
            "node": node.name,
            "progress": report.progress,
            "at": self._clock.now().isoformat(),
        }
        try:
            verdict = self._stream.note_progress(report, ids.to_wire("node", report.node_id), body)
        except Unavailable:
            verdict = "write"
        if verdict == "late":
            return
        if verdict == "write" and report.progress > 0:
            self._nodes.note_progress(report)
        if not self._has_listener(node):
            return
        try:
            self._push(node.tenant_id, node.user_id, body)
        except Exception:
            logger.exception("progress not pushed")

    def _node(self, report: Report) -> Node | None:
        """The name and owner of a node never change, so one read is enough."""
        if report.node_id not in self._known:
            with self._store.open(report.tenant_id) as tx:
                node = tx.node(report.node_id)
            if node is None:
                return None
            if len(self._known) >= CACHED:
                self._known.clear()
            self._known[report.node_id] = node
        return self._known[report.node_id]

    def _has_listener(self, node: Node) -> bool:
        """Whether a socket receives the user's events, from a short cache: the next progress replaces a lost one."""
        now = self._clock.now()
        known = self._listeners.get(node.user_id)
        if known is None or known[0] <= now:
            with self._store.open(node.tenant_id) as tx:
                known = (now + timedelta(seconds=LISTENER_S), tx.has_listener(node.user_id))
            if len(self._listeners) >= CACHED:
                self._listeners.clear()
            self._listeners[node.user_id] = known
        return known[1]


def fold(reports: Sequence[Report]) -> list[Report]:
    """The newest report of each attempt at a node. A report that ends the attempt wins over the others."""
    newest: dict[tuple[UUID, int], Report] = {}
    for report in reports:
        key = (report.node_id, report.attempt)
        known = newest.get(key)
        if known is None or (report.kind.is_terminal, report.sequence) > (known.kind.is_terminal, known.sequence):
            newest[key] = report
    return list(newest.values())


def push_directly(send: Callable[[Message], None]) -> Callable[[UUID, UUID, Mapping[str, Any]], None]:
    """Send notices past the outbox: a lost one is replaced by the next."""
    return lambda tenant_id, user_id, body: send(messages.notice(tenant_id, user_id, body))
