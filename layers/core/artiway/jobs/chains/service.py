"""Starts AFTER jobs: in the transaction that ends a run, the jobs that wait for it get their run, or a note why not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.jobs.admission import JobKey
from artiway.jobs.chains.model import EndedRun, Predecessor
from artiway.jobs.fires import FireNote
from artiway.jobs.limits import limits_of
from artiway.jobs.messages import hints
from artiway.jobs.model import FireOutcome, Job, JobStatus, RunKind, RunState, slot
from artiway.jobs.runs import NewRun
from artiway.jobs.trigger import new_run
from artiway.settings.model import SettingValues

_SECOND = timedelta(seconds=1)


class ChainTransaction(Protocol):
    def successors(self, ended: Sequence[EndedRun]) -> list[tuple[JobKey, JobKey]]: ...
    def all_successors(self, ended: EndedRun) -> list[JobKey]: ...
    def predecessors(self, key: JobKey, scheduled_at: datetime) -> list[Predecessor]: ...
    def job(self, key: JobKey) -> Job | None: ...
    def policies(self, tenant_ids: Sequence[UUID]) -> Sequence[Any]: ...
    def add_run(self, run: NewRun, predecessors: Sequence[Predecessor], now: datetime) -> bool: ...
    def insert_notes(self, notes: Sequence[tuple[JobKey, FireNote]], now: datetime) -> None: ...
    def send(self, messages: Any) -> None: ...


class ChainStore(Protocol):
    def joined(self, run_tx: Any) -> AbstractContextManager[ChainTransaction]: ...


class Chains:
    def __init__(self, store: ChainStore, values: SettingValues) -> None:
        self._store, self._values = store, values

    def follow(self, run_tx: Any, ended: Sequence[EndedRun], now: datetime) -> None:
        """Under the lock of admissions, so that of two predecessors the later one sees the other's end."""
        with self._store.joined(run_tx) as tx:
            edges = tx.successors(ended)
            if not edges:
                return
            for one in ended:
                key = JobKey(one.tenant_id, one.job_id)
                direct = [successor for predecessor, successor in edges if predecessor == key]
                if direct and one.state is RunState.SUCCESS:
                    for successor in direct:
                        self._start(tx, successor, one.scheduled_at, now)
                elif direct:
                    self._explain(tx, one, now)

    def _start(self, tx: ChainTransaction, key: JobKey, scheduled_at: datetime, now: datetime) -> None:
        predecessors = tx.predecessors(key, scheduled_at)
        if any(one.state is not RunState.SUCCESS for one in predecessors):
            return
        job = tx.job(key)
        if job is None or not _is_within(job, scheduled_at):
            return
        if job.status is JobStatus.PAUSED:
            note = FireNote(FireOutcome.PAUSED, scheduled_at, scheduled_at, 1, "the job was paused")
            tx.insert_notes([(key, note)], now)
            return
        (policy,) = tx.policies([key.tenant_id])
        is_backfill = any(one.kind is RunKind.BACKFILL for one in predecessors)
        kind = RunKind.BACKFILL if is_backfill else RunKind.SCHEDULED
        delay = timedelta(seconds=slot(job.job_id, job.definition.schedule.jitter_s) // _SECOND)
        run = new_run(job, scheduled_at, now + delay, kind, limits_of(policy, self._values), now)
        if tx.add_run(run, predecessors, now) and run.is_hinted:
            tx.send(hints([(run.tenant_id, run.run_id, run.lane, run.assigned_at)]))

    @staticmethod
    def _explain(tx: ChainTransaction, one: EndedRun, now: datetime) -> None:
        """Each later job says which run it waits for: a replay of that run that succeeds lets it start."""
        verb = "failed" if one.state is RunState.FAILED else "was terminated"
        reason = f"{ids.to_wire('job', one.job_id)} {verb} ({ids.to_wire('run', one.run_id)})"
        note = FireNote(FireOutcome.PREDECESSOR_FAILED, one.scheduled_at, one.scheduled_at, 1, reason)
        tx.insert_notes([(key, note) for key in tx.all_successors(one)], now)


def _is_within(job: Job, scheduled_at: datetime) -> bool:
    schedule = job.definition.schedule
    is_begun = schedule.starts_at is None or scheduled_at >= schedule.starts_at
    is_over = schedule.ends_at is not None and scheduled_at >= schedule.ends_at
    return job.status in {JobStatus.ACTIVE, JobStatus.PAUSED} and is_begun and not is_over
