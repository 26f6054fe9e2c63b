"""What the fair queue mirrors, read from PostgreSQL across tenants; and the settings of operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.circuits import repository as circuits
from artiway.errors import NotFound
from artiway.platform import sql
from artiway.platform.database import Database, Row
from artiway.scheduling.model import (
    Arrival,
    Backlog,
    ChangedLimits,
    Lane,
    LaneChange,
    LaneState,
    ModelLoad,
    Node,
    Pool,
    Priority,
    Running,
    Snapshot,
    TenantBacklog,
    TenantPolicy,
    Track,
    TrackBacklog,
    WorkerNode,
    WorkerState,
)

SQL = sql.load("artiway.scheduling")
RUN_LANE_DEPTH = 200_000  # of all lanes of runs; more raises an alarm
# The scheduler applies changes of limits every two seconds; a longer gap is covered by the watchdog's comparison.
CHANGES_WINDOW_S = 60
# Lane, time and id of a waiting node.
Place = tuple[str, datetime, str]
FIRST_PLACE: Place = ("", datetime.min.replace(tzinfo=UTC), str(UUID(int=0)))


class PostgresSchedulingStore:
    """Tenants, lanes, models, workers, waiting nodes and slots, as PostgreSQL has them."""

    def __init__(
        self, database: Database, audit: AuditLog, *, silence_s: int, window_s: int, samples: int, prefetch: int
    ) -> None:
        self._database, self._audit = database, audit
        self._silence_s, self._window_s, self._samples, self._prefetch = silence_s, window_s, samples, prefetch

    def policies(self, tenant_ids: Iterable[str]) -> list[TenantPolicy]:
        return [TenantPolicy(**row) for row in self._all("tenant_policies", tenant_ids=sql.array(tenant_ids))]

    def user_caps(self, tenant_ids: Iterable[str]) -> dict[tuple[str, str], int]:
        """The users of these tenants that have a cap of their own."""
        rows = self._all("user_caps", tenant_ids=sql.array(tenant_ids))
        return {(row["tenant_id"], row["user_id"]): row["cap"] for row in rows}

    def changed_limits(self) -> ChangedLimits:
        with self._database.service_transaction():
            tenants = self._all("changed_tenants", window_s=CHANGES_WINDOW_S)
            users = self._all("changed_user_caps", window_s=CHANGES_WINDOW_S)
        return ChangedLimits(
            tenants=[TenantPolicy(**row) for row in tenants],
            user_caps={(row["tenant_id"], row["user_id"]): row["cap"] for row in users},
        )

    def pool(self, pool: str) -> Pool:
        """Slots that live workers announce, and the limits of lanes, models and stopped steps."""
        with self._database.service_transaction() as tx:
            lanes = self._all("lanes_of_pool", pool=pool)
            models = self.model_limits()
            stopped = circuits.stopped(tx)
            workers = [worker for worker in self._live_workers() if worker.pool == pool]
        slots: dict[str, int] = {}
        for worker in workers:
            for kind in worker.types:
                slots[kind] = slots.get(kind, 0) + (0 if worker.is_draining else worker.slots)
        # A little more than the workers hold, so that the next node is there when one ends. A type whose workers all
        # drain gets none.
        served = {kind: count + self._prefetch for kind, count in slots.items() if count}
        held = sum(worker.slots for worker in workers if not worker.is_draining)
        return Pool(
            slots={**dict.fromkeys(slots, 0), **served},
            lanes={
                row["lane"]: Lane(row["lane"], row["is_paused"], row["parallelism"], row["share_percent"])
                for row in lanes
            },
            models=models,
            capacity=held + self._prefetch * len(served),
            steps={
                circuit.step: limit
                for circuit in stopped.circuits
                if circuit.pool == pool and (limit := circuit.limit(stopped.now)) is not None
            },
        )

    def workers(self) -> list[WorkerState]:
        nodes: dict[str, list[WorkerNode]] = {}
        with self._database.service_transaction():
            for row in self._all("nodes_of_workers"):
                nodes.setdefault(row.pop("worker_id"), []).append(WorkerNode(**row))
            return self._live_workers(nodes)

    def _live_workers(self, nodes: Mapping[str, Sequence[WorkerNode]] | None = None) -> list[WorkerState]:
        held = nodes or {}
        return [
            WorkerState(**{**row, "types": tuple(row["types"]), "nodes": tuple(held.get(row["worker_id"], ()))})
            for row in self._all("live_workers", silence_s=self._silence_s)
        ]

    def drain_worker(self, worker_id: str, *, actor_id: UUID | None) -> str:
        """Mark a live worker, and record who did. Returns its pool."""
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["drain_worker"], {"worker_id": worker_id, "silence_s": self._silence_s})
            if row is None:
                raise NotFound("there is no such worker")
            self._audit.record(tx, actor_id=actor_id, action="worker.drained", target=worker_id)
            return str(row["pool"])

    def model_limits(self) -> dict[str, int]:
        return {row["model"]: row["most"] for row in self._all("model_limits")}

    def model_loads(self) -> dict[str, list[ModelLoad]]:
        loads: dict[str, list[ModelLoad]] = {}
        for row in self._all("model_loads"):
            loads.setdefault(row.pop("model"), []).append(ModelLoad(**row))
        return loads

    def set_model_limit(self, model: str, limit: int | None, *, actor_id: UUID | None) -> None:
        """Set the limit of a model, or with None remove it, and record who did."""
        with self._database.service_transaction() as tx:
            tx.run(SQL["lock_model"], {"model": model})
            before = self.model_limits().get(model)
            tx.run(SQL["unset_model_limit" if limit is None else "set_model_limit"], {"model": model, "limit": limit})
            details = {"before": before, "after": limit}
            self._audit.record(tx, actor_id=actor_id, action="model.changed", target=model, details=details)

    def waiting(self, pool: str) -> list[Node]:
        return [_node(row) for row in self._all("waiting_of_pool", pool=pool)]

    def waiting_page(self, pool: str, *, after: Place | None, limit: int) -> tuple[list[Node], Place | None]:
        """Waiting nodes by lane and arrival, and the place of the last one; None at the end of the list."""
        lane, ready_at, node_id = after or FIRST_PLACE
        rows = self._all("waiting_page", pool=pool, lane=lane, ready_at=ready_at, node_id=node_id, limit=limit)
        last = rows[-1] if len(rows) == limit else None
        place = None if last is None else (last["lane"], last["ready_at"], last["node_id"])
        return [_node(row) for row in rows], place

    def waiting_among(self, pool: str, node_ids: Iterable[str]) -> set[str]:
        """Those of the nodes that wait in the pool."""
        return {row["node_id"] for row in self._all("waiting_among", pool=pool, node_ids=sql.array(node_ids))}

    def named_nodes(self, node_ids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Task and name of each node."""
        rows = self._all("named_nodes", node_ids=sql.array(node_ids))
        return {row["node_id"]: (row["task_id"], row["name"]) for row in rows}

    def count_waiting(self, pool: str) -> int:
        return int(self._all("count_waiting", pool=pool)[0]["waiting"])

    def oldest_waiting_s(self) -> dict[str, float]:
        """The age of the oldest waiting node of each pool that has one."""
        return {row["pool"]: max(0.0, row["age_s"]) for row in self._all("oldest_waiting")}

    def running(self, pool: str) -> list[Running]:
        return [Running(_node(row), row["charged_us"]) for row in self._all("slots_of_pool", pool=pool)]

    def holding(self, node_ids: Iterable[str]) -> set[str]:
        """Those of the nodes that hold a slot."""
        return {row["node_id"] for row in self._all("holding", node_ids=sql.array(node_ids))}

    def snapshot(self, pool: str) -> Snapshot:
        """All state of a queue, from one moment's rows."""
        with self._database.service_transaction():
            waiting, running = self.waiting(pool), self.running(pool)
            last_us = {
                row["tenant_id"]: row["tag_us"] for row in self._all("last_tags", pool=pool, window_s=self._window_s)
            }
            costs = {
                row["type"]: (row["samples"], row["average_us"])
                for row in self._all("measured_costs", pool=pool, window_s=self._window_s, samples=self._samples)
            }
            tenant_ids = {node.tenant_id for node in waiting} | {held.node.tenant_id for held in running}
            tenant_ids |= last_us.keys()
            return Snapshot(
                pool=self.pool(pool),
                tenants=self.policies(tenant_ids),
                user_caps=self.user_caps(tenant_ids),
                running=running,
                waiting=waiting,
                clock_us=max(last_us.values(), default=0),
                last_us=last_us,
                costs=costs,
            )

    def backlog(self, pool: str) -> Backlog:
        """Counts of all work in a pool, for forecasts without Redis. Tags are not known: all tenants are level."""
        with self._database.service_transaction():
            return Backlog(0, self.pool(pool), {}, self._backlogs(self._all("backlog_of_pool", pool=pool)))

    def pending(self, pool: str) -> dict[str, TenantBacklog]:
        """Nodes that wait for their dependencies, as work that will wait in the queue."""
        with self._database.service_transaction():
            return self._backlogs(self._all("pending_of_pool", pool=pool))

    def _backlogs(self, rows: Iterable[Row]) -> dict[str, TenantBacklog]:
        tracks: dict[str, dict[Track, TrackBacklog]] = {}
        for row in rows:
            track = Track(row["type"], row["lane"], row["model"], row["step"])
            tracks.setdefault(row["tenant_id"], {})[track] = TrackBacklog(
                row["waiting"], row["waiting_us"], None, row.get("running", 0), row.get("running_us", 0)
            )
        return {
            policy.tenant_id: TenantBacklog(policy, 0, 0, sum(work.running for work in own.values()), own)
            for policy in self.policies(tracks)
            if (own := tracks.get(policy.tenant_id))
        }

    def lanes(self, lane: str | None = None) -> list[LaneState]:
        return [LaneState(**row) for row in self._all("lane_states", lane=lane)]

    def run_lanes(self, lanes: Sequence[str]) -> list[LaneState]:
        parameters = {"lanes": list(lanes), "depth_limit": RUN_LANE_DEPTH}
        return [LaneState(**row) for row in self._all("run_lane_states", **parameters)]

    def set_lane(self, lane: str, change: LaneChange, *, actor_id: UUID | None, reason: str | None = None) -> None:
        """Change the given settings of a lane, and record who did and why."""
        with self._database.service_transaction() as tx:
            tx.run(SQL["add_lane"], {"lane": lane})
            before = tx.one(SQL["lock_lane"], {"lane": lane})
            assert before is not None
            tx.run(SQL["update_lane"], before | change)
            details: dict[str, Any] = {"before": {name: before[name] for name in change}, "after": dict(change)}
            if reason:
                details["reason"] = reason
            self._audit.record(tx, actor_id=actor_id, action="lane.changed", target=lane, details=details)

    def arrivals(self, pool: str, *, window_s: int, limit: int) -> list[Arrival]:
        """Nodes that became ready in the window, and how long they ran; the newest where there are too many."""
        return [
            Arrival(at_us=row["at_us"], node=_node(row), runs_us=row["runs_us"])
            for row in self._all("arrivals", pool=pool, window_s=window_s, limit=limit)
        ]

    def _all(self, query: str, **parameters: Any) -> list[Row]:
        return self._database.read_all_tenants(SQL[query], parameters)


def _node(row: Row) -> Node:
    return Node(
        node_id=row["node_id"],
        tenant_id=row["tenant_id"],
        user_id=row["user_id"],
        track=Track(row["type"], row["lane"], row["model"], row["step"]),
        cost_us=row["cost_us"],
        priority=Priority(row.get("priority", Priority.NORMAL)),
    )
