"""Applies the results of attempts: each counts once, and only for the attempt that it belongs to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID, uuid5

from artiway.jobs import messages
from artiway.jobs.admission import Load, Track
from artiway.jobs.chains.model import EndedRun as EndedPredecessor
from artiway.jobs.dispatch import DispatchService, DispatchTransaction, Followers
from artiway.jobs.messages import HINT_AHEAD_S, Outcome, Result
from artiway.jobs.model import RunState
from artiway.jobs.runs import EndedRun, LogLine, RunningRun, TaskEnd
from artiway.platform import metrics
from artiway.platform.logs import Logger

logger = Logger("jobs")
NO_RESULT = "no result arrived in time"
TASK_TIMED_OUT = "the task did not end in time"
STORED_RESULTS = 5_000


class ResultTransaction(DispatchTransaction, Protocol):
    def running(self, run_ids: Sequence[UUID]) -> dict[UUID, RunningRun]: ...
    def finish(self, ends: Sequence[EndedRun], now: datetime) -> set[UUID]: ...
    def insert_results(self, results: Sequence[Result]) -> None: ...
    def known_results(self, results: Sequence[Result]) -> set[tuple[UUID, int, int, datetime]]: ...
    def ended_tasks(self, run_ids: Sequence[UUID]) -> Mapping[UUID, TaskEnd]: ...
    def expired_leases(self, now: datetime, *, limit: int) -> list[UUID]: ...
    def unwritten_results(self, *, ended: datetime, limit: int) -> list[Result]: ...
    def recount(self) -> int: ...


class ResultStore(Protocol):
    def open(self) -> AbstractContextManager[ResultTransaction]: ...


class ResultService:
    def __init__(
        self,
        store: ResultStore,
        dispatch: DispatchService,
        *,
        jitter: Callable[[], float],
        chains: Followers | None = None,
    ) -> None:
        """`jitter` returns a number from 0 to 1. Without `chains` no job runs after another."""
        self._store, self._dispatch, self._chains, self._jitter = store, dispatch, chains, jitter

    def apply(self, results: Sequence[Result]) -> int:
        """Move the runs of these results, and start deferred runs in the places that become free.

        Returns how many runs moved. A repeated result changes nothing; a late one is kept in the run's log.
        """
        with self._store.open() as tx:
            return self._apply(tx, tx.lock_admissions(), results)

    def expire_leases(self, *, limit: int) -> int:
        """Attempts whose result did not arrive before their lease ended have failed."""
        with self._store.open() as tx:
            now = tx.lock_admissions()
            expired = tx.expired_leases(now, limit=limit)
            return self._apply(tx, now, [*self._expired(tx, expired, now)])

    def reconcile(self, *, age_s: int, limit: int) -> int:
        """Write back what was executed but not written back: from the stored result, or from the task's own row."""
        with self._store.open() as tx:
            now = tx.lock_admissions()
            found = tx.unwritten_results(ended=now - timedelta(seconds=age_s), limit=limit)
            corrected = self._apply(tx, now, found)
        if corrected:
            logger.error("results were not written back", runs=corrected)
            metrics.emit("RunsReconciled", corrected)
        return corrected

    def recount(self) -> int:
        """Correct the counters of running and deferred runs. Returns how many were wrong."""
        with self._store.open() as tx:
            tx.lock_admissions()
            wrong = tx.recount()
        if wrong:
            logger.error("counters of runs were wrong", counters=wrong)
            metrics.emit("JobLoadCorrections", wrong)
        return wrong

    def _expired(self, tx: ResultTransaction, run_ids: Sequence[UUID], now: datetime) -> Iterable[Result]:
        """A task that ended in time counts as it ended; one that still runs is cancelled."""
        if not run_ids:
            return
        runs, tasks = tx.running(run_ids), tx.ended_tasks(run_ids)
        stored = {one.run_id: one for one in tx.unwritten_results(ended=now, limit=STORED_RESULTS)}
        for run_id, run in runs.items():
            if run_id in stored:
                yield stored[run_id]
                continue
            if run_id in tasks:
                yield _of_task(run, tasks[run_id])
                continue
            is_task = run.task_id is not None
            if run.task_id is not None:
                tx.send([messages.cancellation(tenant_id=run.tenant_id, run_id=run_id, task_id=run.task_id)])
            yield Result(
                tenant_id=run.tenant_id,
                run_id=run_id,
                generation=run.generation,
                attempt=run.attempt,
                outcome=Outcome.REFUSED if is_task else Outcome.FAILED,
                at=now,
                error=TASK_TIMED_OUT if is_task else NO_RESULT,
            )

    def _apply(self, tx: ResultTransaction, now: datetime, results: Sequence[Result]) -> int:
        if not results:
            return 0
        runs = tx.running([result.run_id for result in results])
        tasks = tx.ended_tasks([result.run_id for result in results if result.task_id is not None])
        ends: dict[UUID, EndedRun] = {}
        late: list[Result] = []
        for result in results:
            run = runs.get(result.run_id)
            if run is None:
                logger.warning("result of an unknown run", run_id=str(result.run_id))
            elif result.task_id is not None:
                # The message only says that the task has ended; a later attempt may have started it again.
                task = tasks.get(result.run_id)
                if task is not None and task.task_id == result.task_id and run.run_id not in ends:
                    ends[run.run_id] = self._end(run, _of_task(run, task), now)
            elif _is_current(run, result) and run.run_id not in ends:
                ends[run.run_id] = self._end(run, result, now)
            else:
                late.append(result)
        moved = tx.finish(list(ends.values()), now)
        if moved != ends.keys():
            raise RuntimeError("a run changed under the lock of admissions")
        tx.insert_results([end.result for end in ends.values()])
        tx.insert_logs([_line(end, now) for end in ends.values()] + self._late(tx, late, runs))
        retries = [end for end in ends.values() if end.is_hinted and end.due_at is not None]
        tx.send(
            messages.hints(
                [(end.run.tenant_id, end.run.run_id, end.run.lane, end.due_at) for end in retries if end.due_at]
            )
        )
        changes: dict[Track, Load] = defaultdict(Load)
        for end in ends.values():
            changes[end.run.track].running -= 1
        tx.change_loads(changes, known=changes)
        _measure(ends.values())
        final = [
            EndedPredecessor(end.run.tenant_id, end.run.job_id, end.run.run_id, end.run.scheduled_at, end.state)
            for end in ends.values()
            if end.due_at is None
        ]
        if self._chains is not None:
            self._chains.follow(tx, final, now)
        if ends:
            self._dispatch.place(tx, now, [], {end.run.job for end in ends.values()})
        return len(ends)

    def _end(self, run: RunningRun, result: Result, now: datetime) -> EndedRun:
        error = None if result.outcome is Outcome.SUCCEEDED else result.error or f"HTTP {result.http_status}"
        if result.outcome is Outcome.SUCCEEDED:
            return EndedRun(run, result, RunState.SUCCESS)
        if result.outcome is Outcome.REFUSED or run.attempt >= run.retry.max_attempts:
            return EndedRun(run, result, RunState.FAILED, error=error)
        delay_s = run.retry.delay_s(run.attempt, jitter=self._jitter(), retry_after_s=result.retry_after_s)
        is_hinted = delay_s <= HINT_AHEAD_S
        return EndedRun(run, result, RunState.RETRYING, now + timedelta(seconds=delay_s), is_hinted, error)

    @staticmethod
    def _late(tx: ResultTransaction, late: Sequence[Result], runs: Mapping[UUID, RunningRun]) -> list[LogLine]:
        """Lines about results that changed nothing, without those that are stored and came twice."""
        known = tx.known_results(late)
        return [
            LogLine(
                one.tenant_id,
                one.run_id,
                uuid5(one.run_id, f"late:{one.generation}:{one.attempt}:{one.at.isoformat()}"),
                one.at,
                one.attempt,
                "WARN",
                f"late result changed nothing: {_said(one)}; the run is {runs[one.run_id].state}",
            )
            for one in late
            if (one.run_id, one.generation, one.attempt, one.at) not in known
        ]


def _is_current(run: RunningRun, result: Result) -> bool:
    return run.state is RunState.RUNNING and run.generation == result.generation and run.attempt == result.attempt


def _of_task(run: RunningRun, task: TaskEnd) -> Result:
    outcome = {"COMPLETED": Outcome.SUCCEEDED, "CANCELLED": Outcome.REFUSED}.get(task.status, Outcome.FAILED)
    message = task.error.get("message") or f"the task is {task.status}"
    return Result(
        tenant_id=run.tenant_id,
        run_id=run.run_id,
        generation=run.generation,
        attempt=run.attempt,
        outcome=outcome,
        at=task.ended_at,
        error=None if outcome is Outcome.SUCCEEDED else str(message),
        task_id=task.task_id,
    )


def _said(result: Result) -> str:
    status = f"HTTP {result.http_status}" if result.http_status is not None else result.error or ""
    elapsed = f" in {result.elapsed_ms} ms" if result.elapsed_ms is not None else ""
    return f"{result.outcome.lower()} {status}{elapsed}".strip()


def _line(end: EndedRun, now: datetime) -> LogLine:
    run, level = end.run, "INFO" if end.state is RunState.SUCCESS else "ERROR"
    text = f"attempt {run.attempt} {_said(end.result)}"
    if end.error and end.error not in text:
        text += f": {end.error}"
    if end.due_at is not None:
        level, text = "WARN", f"{text}; next attempt at {end.due_at.isoformat(timespec='milliseconds')}"
    log_id = uuid5(run.run_id, f"end:{run.generation}:{run.attempt}")
    return LogLine(run.tenant_id, run.run_id, log_id, now, run.attempt, level, text)


def _measure(ends: Iterable[EndedRun]) -> None:
    counts: dict[str, int] = defaultdict(int)
    for end in ends:
        counts[end.state] += 1
    if retried := counts.pop(RunState.RETRYING, 0):
        metrics.emit("RunsRetried", retried)
    for state, count in counts.items():
        metrics.emit("RunsEnded", count, state=state)
