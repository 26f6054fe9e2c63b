"""Every state that is not an end has a timestamp and a sweeper that knows what to do when it grows old."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.points.model import Hold
from artiway.recovery.model import Artefact, Overdue
from artiway.tasks import messages
from artiway.tasks.lifecycle import NodeService
from artiway.tasks.model import NodeStatus
from artiway.tasks.work import Work

logger = Logger("recovery")


class Finds(Protocol):
    """What grew old, over all tenants, oldest first."""

    def expired_leases(self, *, limit: int) -> Sequence[Overdue]: ...
    def count_leases(self) -> int: ...
    def unclaimed(self, *, age_s: int, limit: int) -> Sequence[Overdue]: ...
    def hint_again(self, node_ids: Sequence[UUID], *, age_s: int) -> int: ...
    def hint_unready(self, *, age_s: int, limit: int) -> int: ...
    def long_running(self, *, age_s: int, limit: int) -> Sequence[Overdue]: ...
    def unheard_executions(self, *, age_s: int, limit: int) -> Sequence[tuple[UUID, UUID]]: ...
    def answer_tokens(self, *, age_s: int, limit: int) -> int: ...
    def finished_tasks(self, *, age_s: int, limit: int) -> Sequence[tuple[UUID, UUID]]: ...
    def orphan_holds(self, *, limit: int) -> Sequence[tuple[UUID, UUID, UUID]]: ...
    def forget_lost_workers(self, *, age_s: int) -> int: ...
    def expired_objects(self, *, limit: int) -> Sequence[Artefact]: ...
    def note_deleted(self, objects: Sequence[Artefact]) -> None: ...


class Store(Protocol):
    def open(self, tenant_id: UUID) -> AbstractContextManager[Work]: ...


class Holds(Protocol):
    def cancel_hold(self, *, tenant_id: UUID, user_id: UUID, hold_id: UUID, reference: str = "") -> Hold: ...


class Objects(Protocol):
    def delete(self, keys: Sequence[str]) -> Sequence[str]: ...


@dataclass(frozen=True)
class Patience:
    """How long each thing may take before somebody looks after it."""

    batch: int = 500
    # Leases that end together are an outage of ours and not of the workers, unless they stay ended.
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
    requeued_tools: frozenset[str] = frozenset()


class Sweeper:
    def __init__(
        self, finds: Finds, store: Store, nodes: NodeService, holds: Holds, objects: Objects, patience: Patience
    ) -> None:
        self._finds, self._store, self._nodes, self._holds = finds, store, nodes, holds
        self._objects, self._patience = objects, patience

    def quick(self) -> dict[str, int]:
        """At least every 30 s: leases, work that nobody took, nodes that nobody heard of."""
        return self._counted(
            leases=self.leases,
            unclaimed=self.unclaimed,
            unready=lambda: self._finds.hint_unready(age_s=self._patience.unready_s, limit=self._patience.batch),
        )

    def slow(self) -> dict[str, int]:
        """Every few minutes: what should have been done with something else, and was not."""
        patience = self._patience
        return self._counted(
            long_running=self.long_running,
            executions=self.executions,
            tokens=lambda: self._finds.answer_tokens(age_s=patience.token_s, limit=patience.batch),
            finished=self.finished,
            holds=self.holds,
            workers=lambda: self._finds.forget_lost_workers(age_s=patience.worker_s),
        )

    def leases(self) -> int:
        patience = self._patience
        expired = self._finds.expired_leases(limit=patience.batch)
        if (
            len(expired) >= patience.outage_minimum
            and len(expired) > patience.outage_share * self._finds.count_leases()
        ):
            metrics.emit("LeaseOutages", 1)
            logger.error("too many leases ended at once", expired=len(expired))
            expired = [one for one in expired if one.overdue_s > patience.outage_grace_s]
        return sum(self._nodes.time_out_lease(one.node_id, one.attempt) for one in expired)

    def unclaimed(self) -> int:
        patience = self._patience
        found = self._finds.unclaimed(age_s=patience.unclaimed_s, limit=patience.batch)
        abandoned = [one for one in found if one.overdue_s > patience.abandoned_s]
        waiting = [one.node_id for one in found if one.overdue_s <= patience.abandoned_s]
        hinted = self._finds.hint_again(waiting, age_s=patience.unclaimed_s) if waiting else 0
        return hinted + sum(self._nodes.time_out_unclaimed(one.node_id, one.attempt) for one in abandoned)

    def long_running(self) -> int:
        found = self._finds.long_running(age_s=self._patience.running_s, limit=self._patience.batch)
        return sum(
            self._nodes.time_out_running(
                one.node_id, one.attempt, is_requeued=one.tool in self._patience.requeued_tools
            )
            for one in found
        )

    def executions(self) -> int:
        """Ask again for executions that have run for long: one that lives takes no notice, one that is lost begins."""
        tasks = self._finds.unheard_executions(age_s=self._patience.execution_s, limit=self._patience.batch)
        for tenant_id, task_id in tasks:
            with self._store.open(tenant_id) as work:
                task = work.task(task_id)
                open_nodes = [
                    node
                    for node in work.nodes(task_id)
                    if node.status in (NodeStatus.PENDING, NodeStatus.QUEUED, NodeStatus.PROCESSING)
                ]
                if task is not None and task.ended_at is None and open_nodes:
                    waiting = frozenset(node.node_id for node in open_nodes if node.in_degree > 0)
                    work.send(messages.start_execution(task, open_nodes, waiting))
        return len(tasks)

    def finished(self) -> int:
        tasks = self._finds.finished_tasks(age_s=self._patience.token_s, limit=self._patience.batch)
        for tenant_id, task_id in tasks:
            self._nodes.settle(tenant_id=tenant_id, task_id=task_id)
        return len(tasks)

    def holds(self) -> int:
        found = self._finds.orphan_holds(limit=self._patience.batch)
        for tenant_id, user_id, hold_id in found:
            self._holds.cancel_hold(tenant_id=tenant_id, user_id=user_id, hold_id=hold_id, reference="watchdog")
        return len(found)

    def expire_objects(self) -> int:
        """Delete what is past its time. What S3 did not delete is found again tomorrow."""
        deleted = 0
        while found := self._finds.expired_objects(limit=self._patience.batch):
            gone = set(self._objects.delete([one.key for one in found]))
            done = [one for one in found if one.key in gone]
            self._finds.note_deleted(done)
            deleted += len(done)
            if len(done) < len(found) or len(found) < self._patience.batch:
                break
        metrics.emit("ObjectsExpired", deleted)
        return deleted

    @staticmethod
    def _counted(**sweeps: Callable[[], int]) -> dict[str, int]:
        """Run each; the failure of one is no reason to leave out the others."""
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
