"""What the fair queue mirrors, read from PostgreSQL across tenants; and the lanes' switches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.platform import sql
from artiway.platform.database import Database, Row
from artiway.scheduling.model import (
    Arrival,
    Backlog,
    Lane,
    LaneChange,
    LaneState,
    Node,
    Pool,
    Priority,
    Running,
    Snapshot,
    TenantBacklog,
    TenantPolicy,
    Track,
    TrackBacklog,
    WorkerState,
)

SQL = sql.load("artiway.scheduling")


class PostgresBook:
    """The truth about one pool's tenants, lanes, workers, waiting nodes and slots."""

    def __init__(
        self, database: Database, audit: AuditLog, *, silence_s: int, window_s: int, samples: int, prefetch: int
    ) -> None:
        self._database, self._audit = database, audit
        self._silence_s, self._window_s, self._samples, self._prefetch = silence_s, window_s, samples, prefetch

    def policies(self, tenant_ids: Iterable[str]) -> list[TenantPolicy]:
        return [TenantPolicy(**row) for row in self._all("tenant_policies", tenant_ids=sql.array(tenant_ids))]

    def pool(self, pool: str) -> Pool:
        """Slots that live workers announce, and the lanes' limits."""
        lanes = {
            row["lane"]: Lane(row["lane"], row["is_paused"], row["parallelism"], row["share_percent"])
            for row in self._all("lanes_of_pool", pool=pool)
        }
        workers = [worker for worker in self.workers() if worker.pool == pool]
        slots: dict[str, int] = {}
        for worker in workers:
            for kind in worker.types:
                slots[kind] = slots.get(kind, 0) + worker.slots
        # A little more than the workers hold, so that the next node is there when one ends. A worker that is leaving
        # holds none, and nothing is sent after it.
        served = {kind: count + self._prefetch for kind, count in slots.items() if count}
        return Pool(
            slots={**dict.fromkeys(slots, 0), **served},
            lanes=lanes,
            capacity=sum(worker.slots for worker in workers) + self._prefetch * len(served),
        )

    def workers(self) -> list[WorkerState]:
        return [
            WorkerState(**{**row, "types": tuple(row["types"])})
            for row in self._all("live_workers", silence_s=self._silence_s)
        ]

    def waiting(self, pool: str) -> list[Node]:
        return [_node(row) for row in self._all("waiting_of_pool", pool=pool)]

    def count_waiting(self, pool: str) -> int:
        return int(self._all("count_waiting", pool=pool)[0]["waiting"])

    def running(self, pool: str) -> list[Running]:
        return [Running(_node(row), row["charged_us"]) for row in self._all("slots_of_pool", pool=pool)]

    def holding(self, node_ids: Iterable[str]) -> set[str]:
        """Which of these hold a slot."""
        return {row["node_id"] for row in self._all("holding", node_ids=sql.array(node_ids))}

    def snapshot(self, pool: str) -> Snapshot:
        """All that a queue is made of, from one moment's rows."""
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
            return Snapshot(
                pool=self.pool(pool),
                tenants=self.policies(tenant_ids | last_us.keys()),
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
            track = Track(row["type"], row["lane"], row["model"])
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

    def set_lane(self, lane: str, change: LaneChange, *, actor_id: UUID | None) -> None:
        """Turn a lane's switches, and write down who did."""
        with self._database.service_transaction() as tx:
            tx.run(SQL["set_lane"], {"lane": lane, **asdict(change)})
            details = {name: value for name, value in asdict(change).items() if value is not None}
            self._audit.record(tx, actor_id=actor_id, action="lane.changed", target=lane, details=details)

    def arrivals(self, pool: str, *, window_s: int, limit: int) -> list[Arrival]:
        """Nodes that became ready in the window, and how long they ran; the newest where there are too many."""
        return [
            Arrival(at_us=row["at_us"], node=_node(row), runs_us=row["runs_us"])
            for row in self._all("arrivals", pool=pool, window_s=window_s, limit=limit)
        ]

    def _all(self, query: str, **parameters: Any) -> list[Row]:
        with self._database.service_transaction() as tx:
            return tx.all(SQL[query], parameters)


def _node(row: Row) -> Node:
    return Node(
        node_id=row["node_id"],
        tenant_id=row["tenant_id"],
        user_id=row["user_id"],
        track=Track(row["type"], row["lane"], row["model"]),
        cost_us=row["cost_us"],
        priority=Priority(row.get("priority", Priority.NORMAL)),
    )
