"""Chains of jobs in PostgreSQL, inside an open transaction on runs, or in the transaction of a definition."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from artiway.jobs.admission import JobKey
from artiway.jobs.chains.model import EndedRun, Predecessor
from artiway.jobs.model import RunKind, RunState
from artiway.jobs.repository import RunTransaction
from artiway.jobs.runs import NewRun
from artiway.platform import sql
from artiway.platform.database import Row, Transaction

SQL = sql.load("artiway.jobs.chains")


class ChainRows:
    def __init__(self, runs: RunTransaction) -> None:
        self._runs, self._tx = runs, runs.tx
        self.job, self.policies, self.insert_notes, self.send = runs.job, runs.policies, runs.insert_notes, runs.send

    def successors(self, ended: Sequence[EndedRun]) -> list[tuple[JobKey, JobKey]]:
        """(predecessor, successor) of each."""
        keys = sorted({(one.tenant_id, one.job_id) for one in ended})
        if not keys:
            return []
        given = {
            "tenant_ids": sql.array(tenant_id for tenant_id, _ in keys),
            "job_ids": sql.array(job_id for _, job_id in keys),
        }
        return [
            (JobKey(row["tenant_id"], row["predecessor_id"]), JobKey(row["tenant_id"], row["job_id"]))
            for row in self._tx.all(SQL["successors"], given)
        ]

    def all_successors(self, ended: EndedRun) -> list[JobKey]:
        """Those without a run for the time."""
        given = {"tenant_id": ended.tenant_id, "job_id": ended.job_id, "scheduled_at": ended.scheduled_at}
        return [JobKey(ended.tenant_id, row["job_id"]) for row in self._tx.all(SQL["all_successors"], given)]

    def predecessors(self, key: JobKey, scheduled_at: datetime) -> list[Predecessor]:
        rows = self._tx.all(SQL["predecessor_runs"], {**key._asdict(), "scheduled_at": scheduled_at})
        return [_predecessor(row) for row in rows]

    def add_run(self, run: NewRun, predecessors: Sequence[Predecessor], now: datetime) -> bool:
        """False: the job has a run for this time."""
        if not self._runs.insert_runs([run], now):
            return False
        document = json.dumps([one.as_data() for one in predecessors], ensure_ascii=False)
        given = {"tenant_id": run.tenant_id, "job_id": run.job_id, "scheduled_at": run.scheduled_at}
        self._tx.run(SQL["set_predecessors"], {**given, "predecessors": document})
        return True


class PostgresChains:
    @contextlib.contextmanager
    def joined(self, run_tx: RunTransaction) -> Iterator[ChainRows]:
        yield ChainRows(run_tx)


class PredecessorRows:
    """The predecessors of a tenant's jobs, in the transaction that changes a definition."""

    def known_jobs(self, tx: Transaction, job_ids: Sequence[UUID]) -> set[UUID]:
        return {row["job_id"] for row in tx.all(SQL["known_jobs"], {"job_ids": list(job_ids)})}

    def edges(self, tx: Transaction) -> list[tuple[UUID, UUID]]:
        return [(row["job_id"], row["predecessor_id"]) for row in tx.all(SQL["edges"])]

    def replace(self, tx: Transaction, job_id: UUID, predecessors: Sequence[UUID]) -> None:
        tx.run(SQL["remove_edges"], {"job_id": job_id})
        if predecessors:
            tx.run(SQL["add_edges"], {"job_id": job_id, "predecessor_ids": sql.array(predecessors)})

    def successors(self, tx: Transaction, job_id: UUID) -> list[UUID]:
        return [row["job_id"] for row in tx.all(SQL["successors_of"], {"job_id": job_id})]


def _predecessor(row: Row) -> Predecessor:
    values: dict[str, Any] = dict(row)
    if row["run_id"] is not None:
        values |= {"state": RunState(row["state"]), "kind": RunKind(row["kind"])}
    return Predecessor(**values)
