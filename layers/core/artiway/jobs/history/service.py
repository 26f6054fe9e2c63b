"""Explains the fires of a job: each nominal time of a range and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from artiway.errors import Refused
from artiway.jobs.fires import FireNote
from artiway.jobs.history import reports
from artiway.jobs.history.reports import Change, ReportedFire
from artiway.jobs.model import Job, NoSuchJob, Run

DEFAULT_RANGE = timedelta(days=1)
# A job fires once a second at most, and other runs of the range are those that a user triggered.
MOST_RUNS = 10_000


class HistoryTransaction(Protocol):
    @property
    def tx(self) -> Any: ...

    def now(self) -> datetime: ...

    def job(self, job_id: UUID, *, is_locked: bool = False) -> Job | None: ...


class HistoryStore(Protocol):
    def open(self, tenant_id: UUID) -> AbstractContextManager[HistoryTransaction]: ...


class FireHistory(Protocol):
    def changes(self, tx: Any, job_id: UUID) -> list[Change]: ...

    def runs(self, tx: Any, job_id: UUID, since: datetime, until: datetime, *, limit: int) -> list[Run]: ...

    def notes(self, tx: Any, job_id: UUID, since: datetime, until: datetime) -> list[FireNote]: ...


class ColdRuns(Protocol):
    def runs_of_job(self, tenant_id: UUID, job_id: UUID, since: datetime, until: datetime) -> Sequence[Run]:
        """The runs that have left PostgreSQL."""


class FireService:
    def __init__(self, store: HistoryStore, history: FireHistory, cold: ColdRuns) -> None:
        self._store, self._history, self._cold = store, history, cold

    def fires(
        self,
        tenant_id: UUID,
        job_id: UUID,
        *,
        since: datetime | None,
        until: datetime | None,
        after: datetime | None,
        limit: int,
    ) -> Sequence[ReportedFire]:
        """Oldest first, from `since` to before `until`: the last day if neither is given. `after` is the end of the
        page before."""
        with self._store.open(tenant_id) as tx:
            job, now = tx.job(job_id), tx.now()
            if job is None:
                raise NoSuchJob
            until = until or max(now, since + DEFAULT_RANGE if since else now)
            since = since or until - DEFAULT_RANGE
            if since >= until:
                raise Refused("the request is not valid", fields=[{"field": "to", "reason": "is not after from"}])
            start = since if after is None else max(since, after + timedelta(microseconds=1))
            parts = reports.segments(job, self._history.changes(tx.tx, job_id))
            page = reports.nominal(parts, start, until, limit=limit)
            end = page[-1] + timedelta(microseconds=1) if len(page) == limit else until
            return reports.report(
                job,
                parts,
                [
                    *self._cold.runs_of_job(tenant_id, job_id, start, end),
                    *self._history.runs(tx.tx, job_id, start, end, limit=MOST_RUNS),
                ],
                self._history.notes(tx.tx, job_id, start, end),
                since=start,
                until=end,
                now=now,
                limit=limit,
            )
