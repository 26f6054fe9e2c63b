"""What workers report, in batches: folded to the newest per node, told at once, written down now and then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.errors import Unavailable
from artiway.outbox.model import Message
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.tasks import messages
from artiway.tasks.lifecycle import NodeService
from artiway.tasks.model import Node, Report
from artiway.tasks.work import Work

logger = Logger("progress")
REMEMBERED = 10_000
LISTENER_S = 2


class Store(Protocol):
    def open(self, tenant_id: UUID) -> AbstractContextManager[Work]: ...


class Stream(Protocol):
    def note_progress(self, report: Report, node: str, body: dict[str, Any]) -> str:
        """ "write": tell the database too; "noted"; "late": something newer is known."""


class Progress:
    """`tell` brings a notice to a user's sockets, and may fail: the next one says more."""

    def __init__(
        self,
        store: Store,
        nodes: NodeService,
        stream: Stream,
        clock: Clock,
        *,
        tell: Callable[[UUID, UUID, Mapping[str, Any]], None],
    ) -> None:
        self._store, self._nodes, self._stream, self._clock, self._tell = store, nodes, stream, clock, tell
        self._known: dict[UUID, Node] = {}
        self._heard: dict[UUID, tuple[datetime, bool]] = {}

    def handle(self, reports: Sequence[Report]) -> list[Report]:
        """Returns the reports that could not be handled, to come again."""
        failed: list[Report] = []
        for report in fold(reports):
            try:
                self._handle(report)
            except Exception:
                logger.exception("report failed", node_id=str(report.node_id), kind=report.kind)
                failed.append(report)
        metrics.emit("ReportsFolded", len(reports))
        return failed

    def _handle(self, report: Report) -> None:
        if not report.kind.is_terminal:
            self._note(report)
        elif not self._nodes.settle_report(report):
            metrics.emit("ReportsStale", 1)

    def _note(self, report: Report) -> None:
        node = self._node(report)
        if node is None:
            return
        body = {
            "type": "task.progress",
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
        if not self._is_heard(node):
            return
        try:
            self._tell(node.tenant_id, node.user_id, body)
        except Exception:
            logger.exception("progress not pushed")

    def _node(self, report: Report) -> Node | None:
        """Name and owner of a node never change, so one look is enough."""
        if report.node_id not in self._known:
            with self._store.open(report.tenant_id) as work:
                node = work.node(report.node_id)
            if node is None:
                return None
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[report.node_id] = node
        return self._known[report.node_id]

    def _is_heard(self, node: Node) -> bool:
        """Whether somebody listens, as of a moment ago: progress that nobody heard is made good by the next."""
        now = self._clock.now()
        known = self._heard.get(node.user_id)
        if known is None or known[0] <= now:
            with self._store.open(node.tenant_id) as work:
                known = (now + timedelta(seconds=LISTENER_S), work.has_listener(node.user_id))
            if len(self._heard) >= REMEMBERED:
                self._heard.clear()
            self._heard[node.user_id] = known
        return known[1]


def fold(reports: Sequence[Report]) -> list[Report]:
    """The newest report of each attempt at a node, and what ends it in preference to anything before that."""
    newest: dict[tuple[UUID, int], Report] = {}
    for report in reports:
        key = (report.node_id, report.attempt)
        known = newest.get(key)
        if known is None or (report.kind.is_terminal, report.sequence) > (known.kind.is_terminal, known.sequence):
            newest[key] = report
    return list(newest.values())


def direct(send: Callable[[Message], None]) -> Callable[[UUID, UUID, Mapping[str, Any]], None]:
    """Notices past the outbox: what is lost of them is made good by the next."""
    return lambda tenant_id, user_id, body: send(messages.notice(tenant_id, user_id, body))
