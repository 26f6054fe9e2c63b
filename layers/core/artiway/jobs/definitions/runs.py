"""Runs for their tenants and for operators: lists, logs, terminate, replay, dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.errors import Refused
from artiway.jobs.definitions.model import LogLine, RunFilter, RunOfTenant
from artiway.jobs.model import ENDED, JobConflict, NoSuchJob, NoSuchRun, Run

REPLAY_RUNS = 1_000
DEAD_RUNS = 100
# Lines of one run in PostgreSQL that are joined with those of the archive.
MOST_LINES = 10_000


class RunTransaction(Protocol):
    @property
    def tx(self) -> Any: ...

    def run(self, run_id: UUID) -> Run | None: ...

    def runs(self, wanted: RunFilter, *, before: UUID | None, limit: int) -> list[Run]: ...

    def log_lines(self, run: Run, *, after: UUID | None, limit: int) -> list[LogLine]: ...

    def has_job(self, job_id: UUID) -> bool: ...

    def discard_dead(self, tenant_id: UUID, run_ids: Sequence[UUID]) -> list[UUID]: ...

    def audit(self, actor_id: UUID, action: str, target: str, details: Mapping[str, Any]) -> None: ...


class RunStore(Protocol):
    def open(self, tenant_id: UUID) -> AbstractContextManager[RunTransaction]: ...


class Control(Protocol):
    """The run engine, inside the caller's transaction."""

    def terminate(self, tx: Any, run_ids: Sequence[UUID], *, reason: str) -> set[UUID]: ...

    def replay(self, tx: Any, run_ids: Sequence[UUID]) -> set[UUID]: ...


class RunSearch(Protocol):
    def search(
        self, tenant_id: UUID | None, wanted: RunFilter, *, before: UUID | None, limit: int
    ) -> list[RunOfTenant]: ...

    def tenants_of(self, run_ids: Sequence[UUID]) -> dict[UUID, UUID]: ...

    def count_dead(self) -> int: ...

    def dead(self, *, limit: int) -> list[RunOfTenant]: ...


class ColdRuns(Protocol):
    """Runs and logs that have left PostgreSQL."""

    def run(self, tenant_id: UUID, run_id: UUID) -> Run | None: ...

    def log(self, tenant_id: UUID, run: Run) -> list[LogLine]: ...


class RunService:
    def __init__(self, store: RunStore, control: Control, cold: ColdRuns) -> None:
        self._store, self._control, self._cold = store, control, cold

    def runs(self, tenant_id: UUID, wanted: RunFilter, *, before: UUID | None, limit: int) -> list[Run]:
        """The newest scheduled time first."""
        with self._store.open(tenant_id) as tx:
            return tx.runs(wanted, before=before, limit=limit)

    def run(self, tenant_id: UUID, run_id: UUID) -> Run:
        """From PostgreSQL, else from the archive."""
        with self._store.open(tenant_id) as tx:
            return _found(tx.run(run_id) or self._cold.run(tenant_id, run_id))

    def logs(self, tenant_id: UUID, run_id: UUID, *, after: UUID | None, limit: int) -> list[LogLine]:
        """Oldest first. Lines of a run can lie in PostgreSQL and in the archive."""
        with self._store.open(tenant_id) as tx:
            run = _found(tx.run(run_id) or self._cold.run(tenant_id, run_id))
            cold = self._cold.log(tenant_id, run)
            if not cold:
                return tx.log_lines(run, after=after, limit=limit)
            hot = tx.log_lines(run, after=None, limit=MOST_LINES)
        lines = sorted({line.log_id: line for line in [*cold, *hot]}.values(), key=lambda line: (line.at, line.log_id))
        start = next((place + 1 for place, line in enumerate(lines) if line.log_id == after), 0)
        return lines[start : start + limit]

    def terminate(self, tenant_id: UUID, run_id: UUID, *, actor_id: UUID) -> None:
        """A run that was terminated before stays so. The result of a call that is under way changes nothing."""
        with self._store.open(tenant_id) as tx:
            self._hot(tx, tenant_id, run_id)
            reason = f"terminated by {ids.to_wire('usr', actor_id)}"
            if run_id not in self._control.terminate(tx.tx, [run_id], reason=reason):
                run = _found(tx.run(run_id))
                raise JobConflict("the run has ended", state=run.state)
            tx.audit(actor_id, "run.terminate", ids.to_wire("run", run_id), {})

    def replay(self, tenant_id: UUID, run_id: UUID, *, actor_id: UUID) -> None:
        """The same run again, as its next generation with a new idempotency key."""
        with self._store.open(tenant_id) as tx:
            run = self._hot(tx, tenant_id, run_id)
            if not tx.has_job(run.job_id):
                raise JobConflict("the job of this run was deleted")
            if run_id not in self._control.replay(tx.tx, [run_id]):
                raise JobConflict("the run has not ended", state=run.state)
            tx.audit(actor_id, "run.replay", ids.to_wire("run", run_id), {"state": run.state})

    def _hot(self, tx: RunTransaction, tenant_id: UUID, run_id: UUID) -> Run:
        run = tx.run(run_id)
        if run is None and self._cold.run(tenant_id, run_id) is not None:
            raise JobConflict("the run is archived; trigger or backfill its job instead")
        return _found(run)

    def replay_range(self, tenant_id: UUID, wanted: RunFilter, *, actor_id: UUID) -> tuple[int, datetime | None]:
        """Replay the ended runs of a job in a range, the newest first. Returns how many, and the end of the range that
        is left, if one is: with the same end, runs that have ended again would be replayed again."""
        assert wanted.job_id is not None
        with self._store.open(tenant_id) as tx:
            if not tx.has_job(wanted.job_id):
                raise NoSuchJob
            found = tx.runs(wanted, before=None, limit=REPLAY_RUNS + 1)
            chosen = [run.run_id for run in found[:REPLAY_RUNS] if run.state in ENDED]
            replayed = self._control.replay(tx.tx, chosen)
            details = {"from": _text(wanted.since), "to": _text(wanted.until), "state": wanted.state}
            tx.audit(actor_id, "run.replay", ids.to_wire("job", wanted.job_id), {**details, "runs": len(replayed)})
        return len(replayed), found[REPLAY_RUNS - 1].scheduled_at if len(found) > REPLAY_RUNS else None


class RunOperations:
    """For operators. Each act is a transaction of the run's tenant, and audited there."""

    def __init__(self, search: RunSearch, store: RunStore, control: Control) -> None:
        self._search, self._store, self._control = search, store, control

    def search(
        self, tenant_id: UUID | None, wanted: RunFilter, *, before: UUID | None, limit: int
    ) -> list[RunOfTenant]:
        return self._search.search(tenant_id, wanted, before=before, limit=limit)

    def retry(self, run_ids: Sequence[UUID], *, actor_id: UUID) -> set[UUID]:
        """Replay those that have ended. Returns them; unknown and unfinished runs are left out."""
        return self._each(run_ids, "run.replay", actor_id, lambda tx, chosen: self._control.replay(tx.tx, chosen))

    def cancel(self, run_ids: Sequence[UUID], *, actor_id: UUID) -> set[UUID]:
        """Terminate those that have not ended."""
        return self._each(
            run_ids,
            "run.terminate",
            actor_id,
            lambda tx, chosen: self._control.terminate(tx.tx, chosen, reason="terminated by an operator"),
        )

    # Dead letters

    def dead_count(self) -> int:
        return self._search.count_dead()

    def dead(self) -> list[RunOfTenant]:
        return self._search.dead(limit=DEAD_RUNS)

    def replay_dead(self, run_ids: Sequence[UUID] | None, *, actor_id: UUID) -> int:
        return len(self.retry(self._chosen(run_ids), actor_id=actor_id))

    def discard_dead(self, run_ids: Sequence[UUID] | None, *, reason: str, actor_id: UUID) -> int:
        """The run stays FAILED, and is no dead letter any more."""
        if not reason.strip():
            raise Refused("the request is not valid", fields=[{"field": "reason", "reason": "is needed"}])
        discarded = 0
        for tenant_id, chosen in self._by_tenant(self._chosen(run_ids)).items():
            with self._store.open(tenant_id) as tx:
                gone = tx.discard_dead(tenant_id, chosen)
                for run_id in gone:
                    tx.audit(actor_id, "run.discard", ids.to_wire("run", run_id), {"reason": reason})
            discarded += len(gone)
        return discarded

    def _chosen(self, run_ids: Sequence[UUID] | None) -> list[UUID]:
        dead = [one.run.run_id for one in self._search.dead(limit=DEAD_RUNS)] if run_ids is None else list(run_ids)
        return list(dict.fromkeys(dead))

    def _each(self, run_ids: Sequence[UUID], action: str, actor_id: UUID, act: Any) -> set[UUID]:
        done: set[UUID] = set()
        for tenant_id, chosen in self._by_tenant(run_ids).items():
            with self._store.open(tenant_id) as tx:
                changed = act(tx, chosen)
                for run_id in sorted(changed):
                    tx.audit(actor_id, action, ids.to_wire("run", run_id), {"by": "operator"})
            done |= changed
        return done

    def _by_tenant(self, run_ids: Sequence[UUID]) -> dict[UUID, list[UUID]]:
        found: dict[UUID, list[UUID]] = {}
        for run_id, tenant_id in sorted(self._search.tenants_of(run_ids).items()):
            found.setdefault(tenant_id, []).append(run_id)
        return found


def _found(run: Run | None) -> Run:
    if run is None:
        raise NoSuchRun
    return run


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
