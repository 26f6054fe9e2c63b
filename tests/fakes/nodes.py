"""Puts tenants, tasks and nodes straight into the tables, for tests that begin where a submission has ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

import psycopg

from artiway import ids
from artiway.outbox.model import Envelope

POINTS = 10


class Yard:
    """Rows as a submission leaves them: nodes PENDING, nothing to wait for."""

    def __init__(self, superuser_url: str) -> None:
        self.connection = psycopg.connect(superuser_url, autocommit=True)
        self.envelopes: list[Envelope] = []

    def close(self) -> None:
        self.connection.close()

    def tenant(self, tier: str = "vip", *, weight: int | None = None, concurrency: int | None = None) -> UUID:
        tenant_id = ids.new_id()
        self.connection.execute(
            "INSERT INTO tenant (tenant_id, name, tier, weight, concurrency) VALUES (%s, 'T', %s, %s, %s)",
            (tenant_id, tier, weight, concurrency),
        )
        return tenant_id

    def user(self, tenant_id: UUID) -> UUID:
        user_id = ids.new_id()
        self.connection.execute("INSERT INTO app_user (tenant_id, user_id) VALUES (%s, %s)", (tenant_id, user_id))
        return user_id

    def task(
        self,
        tenant_id: UUID,
        count: int,
        *,
        user_id: UUID | None = None,
        kind: str = "cutout",
        cost_s: float = 6,
        lane: str = "vip_short",
        pool: str = "gpu",
        model: str = "",
    ) -> list[UUID]:
        """A task of independent nodes. Returns their ids, in order."""
        user_id, task_id = user_id or self.user(tenant_id), ids.new_id()
        nodes = sorted(ids.new_id() for _ in range(count))  # so that every scan finds them in this order
        self.connection.execute(
            "INSERT INTO task (tenant_id, task_id, user_id, tool, hold_id, lane, pool, price_points)"
            " VALUES (%s, %s, %s, 'cutout', %s, %s, %s, %s)",
            (tenant_id, task_id, user_id, ids.new_id(), lane, pool, POINTS),
        )
        self.connection.execute(
            "INSERT INTO task_node (tenant_id, node_id, task_id, user_id, position, name, type, step, model, lane,"
            " pool, cost_us, is_result, in_degree)"
            " SELECT %s, node_id, %s, %s, place, 'n' || place, %s, 's', %s, %s, %s, %s, true, 0"
            " FROM unnest(%s::uuid[]) WITH ORDINALITY AS made (node_id, place)",
            (tenant_id, task_id, user_id, kind, model, lane, pool, round(cost_s * 1_000_000), nodes),
        )
        return nodes

    def worker(self, slots: int, types: Sequence[str] = ("cutout", "model", "compose"), pool: str = "gpu") -> str:
        worker_id = f"worker-{ids.new_id().hex[-12:]}"
        self.connection.execute(
            "INSERT INTO worker (worker_id, pool, types, slots) VALUES (%s, %s, %s, %s)",
            (worker_id, pool, list(types), slots),
        )
        return worker_id

    def states(self, node_ids: Sequence[UUID]) -> list[tuple[str, int, bool]]:
        """(status, attempt, dispatched) of each node, in the order asked for."""
        rows = self.connection.execute(
            "SELECT node_id, status, attempt, dispatched_at IS NOT NULL FROM task_node WHERE node_id = ANY (%s)",
            (list(node_ids),),
        )
        found = {row[0]: (row[1], row[2], row[3]) for row in rows}
        return [found[node_id] for node_id in node_ids]

    def dispatched(self, node_ids: Sequence[UUID]) -> list[UUID]:
        """Those that hold a slot, in the order of their tags."""
        rows = self.connection.execute(
            "SELECT node_id FROM slot_in_use WHERE node_id = ANY (%s) ORDER BY tag_us, node_id", (list(node_ids),)
        )
        return [row[0] for row in rows]

    def deliver(self, _tenant_id: UUID | None, envelopes: Sequence[Envelope]) -> None:
        """Take the messages of a transaction that has committed."""
        self.envelopes += envelopes

    def sent(self) -> list[tuple[UUID, int]]:
        """(node, attempt) of every work message."""
        bodies = [json.loads(one.body)["data"] for one in self.envelopes if one.destination.startswith("work:")]
        return [(UUID(data["nodeId"]), data["attempt"]) for data in bodies]

    def end(self, node_id: UUID) -> None:
        """Claim and finish, as a worker and the progress function would."""
        claimed = (
            "SET status = 'PROCESSING', version = version + 1, worker_id = 'w', started_at = now(),"
            " lease_until = now() + interval '1 minute'"
        )
        finished = (
            "SET status = 'COMPLETED', version = version + 1, lease_until = NULL, ended_at = clock_timestamp(),"
            " gpu_us = cost_us"
        )
        for change in (claimed, finished):
            self.connection.execute(f"UPDATE task_node {change} WHERE node_id = %s".encode(), (node_id,))
