"""Every state that is not final has a timestamp, and a sweep that acts when the timestamp is too old."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.points.service import PointsService
from artiway.recovery.model import Artefact, Overdue
from artiway.tasks import messages
from artiway.tasks.lifecycle import NodeService
from artiway.tasks.model import NodeStatus
from artiway.tasks.transaction import TaskStore

logger = Logger("recovery")


class OverdueQueries(Protocol):
    """Rows of all tenants that have waited too long, oldest first."""

    def expired_leases(self, *, limit: int) -> Sequence[Overdue]: ...
    def count_leases(self) -> int: ...
    def unclaimed(self, *, age_s: int, limit: int) -> Sequence[Overdue]: ...
    def resend_work_messages(self, node_ids: Sequence[UUID], *, age_s: int) -> int: ...
    def resend_ready_messages(self, *, age_s: int, limit: int) -> int: ...
    def stopped(self, *, age_s: int, limit: int) -> Sequence[Overdue]: ...
    def long_running(self, *, age_s: int, limit: int) -> Sequence[Overdue]: ...
    def stale_executions(self, *, age_s: int, limit: int) -> Sequence[tuple[UUID, UUID]]: ...
    def answer_tokens(self, *, age_s: int, limit: int) -> int: ...
    def finished_tasks(self, *, age_s: int, limit: int) -> Sequence[tuple[UUID, UUID]]: ...
    def orphan_holds(self, *, limit: int) -> Sequence[tuple[UUID, UUID, UUID]]: ...
    def delete_lost_workers(self, *, age_s: int) -> int: ...
    def expired_objects(self, *, limit: int) -> Sequence[Artefact]: ...
    def note_deleted(self, objects: Sequence[Artefact]) -> None: ...


class TextSweeps(Protocol):
    def leases(self) -> int: ...
    def cancels(self) -> int: ...
    def messages(self) -> int: ...
    def holds(self) -> int: ...


class Objects(Protocol):
    def delete(self, keys: Sequence[str]) -> Sequence[str]: ...


@dataclass(frozen=True)
class SweepThresholds:
    """The age at which each sweep acts."""

    batch: int = 500
    # If many leases expire at once, the platform was down, not the workers: give them time to renew.
    outage_share: float = 0.2
    outage_minimum: int = 5
    outage_grace_s: int = 120
    unclaimed_s: int = 40
    abandoned_s: int = 600
    unready_s: int = 30
    execution_s: int = 300
    token_s: int = 60
    running_s: int = 7_200
    worker_s: int = 300
    expire_work_s: float = 240
    requeued_tools: frozenset[str] = frozenset()


class Sweeper:
    def __init__(
        self,
        overdue: OverdueQueries,
        store: TaskStore,
        nodes: NodeService,
        points: PointsService,
        objects: Objects,
        thresholds: SweepThresholds,
        *,
        stopped_wait_s: Callable[[], int],
        texts: TextSweeps | None = None,
    ) -> None:
        """`stopped_wait_s` returns for how long a node waits for a stopped step."""
        self._texts = texts
        self._overdue, self._store, self._nodes, self._points = overdue, store, nodes, points
        self._objects, self._thresholds, self._stopped_wait_s = objects, thresholds, stopped_wait_s

    def quick(self) -> dict[str, int]:
        """At least every 30 s: expired leases, unclaimed work messages, nodes of stopped steps or without a ready
        message."""
        texts = self._texts
        counts = self._counted(
            leases=self.leases,
            unclaimed=self.unclaimed,
            stopped=self.stopped,
            unready=lambda: self._overdue.resend_ready_messages(
                age_s=self._thresholds.unready_s, limit=self._thresholds.batch
            ),
        )
        if texts is not None:
            counts |= self._counted(text_leases=texts.leases, text_cancels=texts.cancels, text_messages=texts.messages)
        return counts

    def slow(self) -> dict[str, int]:
        """Every few minutes: changes that should have followed another change and did not."""
        thresholds, texts = self._thresholds, self._texts
        counts = self._counted(
            long_running=self.long_running,
            executions=self.executions,
            tokens=lambda: self._overdue.answer_tokens(age_s=thresholds.token_s, limit=thresholds.batch),
            finished=self.finished,
            holds=self.holds,
            workers=lambda: self._overdue.delete_lost_workers(age_s=thresholds.worker_s),
        )
        return counts if texts is None else counts | self._counted(text_holds=texts.holds)

    def leases(self) -> int:
        thresholds = self._thresholds
        expired = self._overdue.expired_leases(limit=thresholds.batch)
        if (
            len(expired) >= thresholds.outage_minimum
            and len(expired) > thresholds.outage_share * self._overdue.count_leases()
        ):
            metrics.emit("LeaseOutages", 1)
            logger.error("many leases expired at once", expired=len(expired))
            expired = [one for one in expired if one.overdue_s > thresholds.outage_grace_s]
        return sum(self._nodes.time_out_lease(one.node_id, one.attempt) for one in expired)

    def unclaimed(self) -> int:
        thresholds = self._thresholds
        found = self._overdue.unclaimed(age_s=thresholds.unclaimed_s, limit=thresholds.batch)
        abandoned = [one for one in found if one.overdue_s > thresholds.abandoned_s]
        waiting = [one.node_id for one in found if one.overdue_s <= thresholds.abandoned_s]
        resent = self._overdue.resend_work_messages(waiting, age_s=thresholds.unclaimed_s) if waiting else 0
        return resent + sum(self._nodes.time_out_unclaimed(one.node_id, one.attempt) for one in abandoned)

    def stopped(self) -> int:
        """Fail nodes that wait for a stopped step for too long."""
        found = self._overdue.stopped(age_s=self._stopped_wait_s(), limit=self._thresholds.batch)
        return sum(self._nodes.time_out_stopped(one.node_id, one.attempt) for one in found)

    def long_running(self) -> int:
        found = self._overdue.long_running(age_s=self._thresholds.running_s, limit=self._thresholds.batch)
        return sum(
            self._nodes.time_out_running(
                one.node_id, one.attempt, is_requeued=one.tool in self._thresholds.requeued_tools
            )
            for one in found
        )

    def executions(self) -> int:
        """Start the executions of old tasks again. Step Functions ignores a known name, and starts a lost execution."""
        tasks = self._overdue.stale_executions(age_s=self._thresholds.execution_s, limit=self._thresholds.batch)
        for tenant_id, task_id in tasks:
            with self._store.open(tenant_id) as tx:
                task = tx.task(task_id)
                open_nodes = [
                    node
                    for node in tx.nodes(task_id)
                    if node.status in (NodeStatus.PENDING, NodeStatus.QUEUED, NodeStatus.PROCESSING)
                ]
                if task is not None and task.ended_at is None and open_nodes:
                    tx.send(messages.start_execution(task, open_nodes))
        return len(tasks)

    def finished(self) -> int:
        tasks = self._overdue.finished_tasks(age_s=self._thresholds.token_s, limit=self._thresholds.batch)
        for tenant_id, task_id in tasks:
            self._nodes.settle(tenant_id=tenant_id, task_id=task_id)
        return len(tasks)

    def holds(self) -> int:
        found = self._overdue.orphan_holds(limit=self._thresholds.batch)
        for tenant_id, user_id, hold_id in found:
            self._points.cancel_hold(tenant_id=tenant_id, user_id=user_id, hold_id=hold_id, reference="watchdog")
        return len(found)

    def expire_objects(self) -> int:
        """Delete expired objects, for a limited time. The next run finds the others."""
        deleted, deadline = 0, time.monotonic() + self._thresholds.expire_work_s
        while time.monotonic() < deadline and (found := self._overdue.expired_objects(limit=self._thresholds.batch)):
            gone = set(self._objects.delete([one.key for one in found]))
            done = [one for one in found if one.key in gone]
            self._overdue.note_deleted(done)
            deleted += len(done)
            if len(done) < len(found) or len(found) < self._thresholds.batch:
                break
        metrics.emit("ObjectsExpired", deleted)
        return deleted

    @staticmethod
    def _counted(**sweeps: Callable[[], int]) -> dict[str, int]:
        """Run each sweep; if one fails, the others still run."""
        counts: dict[str, int] = {}
        for name, sweep in sweeps.items():
            try:
                counts[name] = sweep()
            except Exception:
                logger.exception("sweep failed", sweep=name)
                metrics.emit("SweepFailures", 1, sweep=name)
                continue
            metrics.emit("Swept", counts[name], sweep=name)
        return counts
