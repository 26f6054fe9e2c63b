"""Starts runs that are due, within the limits of tenants, lanes and jobs, and hands them over to those who do the work.

One lock serialises everything that moves runs, so the limits are exact and no wake-up is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID, uuid5

from artiway.jobs import messages
from artiway.jobs.admission import (
    Admission,
    Decisions,
    JobKey,
    JobLoad,
    LaneRule,
    Load,
    Minute,
    OtherRun,
    Rules,
    Track,
    WaitingRun,
)
from artiway.jobs.chains.model import EndedRun, rendered
from artiway.jobs.limits import limits_of
from artiway.jobs.messages import HINT_AHEAD_S, QUEUE_S, Call
from artiway.jobs.model import CallKeys, OverlapPolicy, RunState, TaskType, idempotency_key
from artiway.jobs.runs import LogLine, StartedRun
from artiway.jobs.settings import CAPACITY
from artiway.outbox.model import Message
from artiway.platform import metrics
from artiway.platform.clock import Clock, SystemClock
from artiway.platform.logs import Logger
from artiway.settings.model import SettingValues

logger = Logger("jobs")
CALL_WAIT_S = 90
# A hint arrives up to a second before its runs are due.
EARLY_S = 1.5
MOST_ROUNDS = 4
BLOCKED_JOBS = 500
REPLACED = "replaced by a newer run of the job"
_SECRET = re.compile(r"secret:([A-Z][A-Z0-9_]{0,63})")


class DispatchTransaction(Protocol):
    def send(self, messages: Iterable[Message]) -> None: ...
    def lock_admissions(self) -> datetime: ...
    def policies(self, tenant_ids: Iterable[UUID]) -> Sequence[Mapping[str, Any]]: ...
    def due_runs(self, run_ids: Sequence[UUID]) -> list[WaitingRun]: ...
    def blocked_runs(self, jobs: Sequence[JobKey]) -> list[WaitingRun]: ...
    def blocked_jobs(self, *, limit: int) -> list[JobKey]: ...
    def deferred_runs(self, wanted: Mapping[Track, int]) -> list[WaitingRun]: ...
    def job_loads(self, jobs: Iterable[JobKey]) -> dict[JobKey, JobLoad]: ...
    def other_runs(self, jobs: Iterable[JobKey]) -> list[OtherRun]: ...
    def loads(self) -> dict[Track, Load]: ...
    def minutes(self, tenant_ids: Iterable[UUID], now: datetime) -> dict[UUID, Minute]: ...
    def lane_rules(self) -> dict[str, LaneRule]: ...
    def start(self, runs: Sequence[WaitingRun], now: datetime, *, queue_s: int) -> list[StartedRun]: ...
    def call_keys(
        self, runs: Sequence[StartedRun], names: Callable[[Any], Iterable[str]], now: datetime
    ) -> CallKeys: ...
    def defer(self, runs: Sequence[tuple[WaitingRun, str]], now: datetime) -> None: ...
    def put_off(
        self, runs: Sequence[tuple[WaitingRun, datetime]], now: datetime, *, hinted_until: datetime
    ) -> None: ...
    def skip(self, runs: Sequence[WaitingRun], now: datetime) -> None: ...
    def terminate(self, runs: Sequence[OtherRun], now: datetime, *, reason: str) -> None: ...
    def change_loads(self, changes: Mapping[Track, Load], known: Iterable[Track] = ()) -> None: ...
    def set_minutes(self, minutes: Mapping[UUID, Minute], now: datetime) -> None: ...
    def insert_logs(self, lines: Sequence[LogLine]) -> None: ...


class DispatchStore(Protocol):
    def open(self) -> AbstractContextManager[DispatchTransaction]: ...


class Targets(Protocol):
    def pass_on(self, run_tx: Any, runs: Sequence[WaitingRun], now: datetime) -> list[WaitingRun]: ...


class Followers(Protocol):
    def follow(self, run_tx: Any, ended: Sequence[EndedRun], now: datetime) -> None:
        """Start the jobs that run after these, or note why they do not start."""


class DispatchService:
    def __init__(
        self,
        store: DispatchStore,
        values: SettingValues,
        *,
        pause: Callable[[float], None],
        clock: Clock | None = None,
        targets: Targets | None = None,
        chains: Followers | None = None,
    ) -> None:
        """`pause` waits for a number of seconds. `targets` holds runs back whose target fails. Without `chains` no job
        runs after another."""
        self._store, self._values, self._pause, self._targets = store, values, pause, targets
        self._chains = chains
        self._clock = clock or SystemClock()

    def admit(self, run_ids: Sequence[UUID], *, due_at: datetime | None = None) -> int:
        """Start the named runs that are due, or note what they wait for. Returns how many runs started.

        A run that is due within a second is waited for, so it starts at its second and never before it. `due_at` is the
        time of the first of them by the message: it is waited for without a transaction. The database's clock decides.
        """
        if due_at is not None:
            early_s = (due_at - self._clock.now()).total_seconds()
            if 0 < early_s <= EARLY_S:
                self._pause(early_s)
        started, wanted = 0, list(run_ids)
        for _ in range(MOST_ROUNDS):
            with self._store.open() as tx:
                now = tx.lock_admissions()
                found = tx.due_runs(wanted)
                started += self.place(tx, now, [run for run in found if run.due_at <= now], ())
            early = [run for run in found if now < run.due_at <= now + timedelta(seconds=EARLY_S)]
            if not early:
                break
            self._pause((min(run.due_at for run in early) - now).total_seconds())
            wanted = [run.run_id for run in early]
        return started

    def wake(self) -> int:
        """Start deferred runs for which there is room now."""
        with self._store.open() as tx:
            now = tx.lock_admissions()
            return self.place(tx, now, [], tx.blocked_jobs(limit=BLOCKED_JOBS))

    def place(self, tx: DispatchTransaction, now: datetime, due: Sequence[WaitingRun], freed: Iterable[JobKey]) -> int:
        """Under the lock of admissions: decide about due runs, runs of the freed jobs and deferred runs."""
        loads = tx.loads()
        blocked = {track.tenant_id for track, load in loads.items() if load.blocked}
        ready = tx.blocked_runs(sorted({key for key in freed if key.tenant_id in blocked}))
        offered = self._reachable(tx, [*due, *ready], now)
        if not offered and not any(load.deferred for load in loads.values()):
            return 0
        tenants = {run.tenant_id for run in offered} | {
            track.tenant_id for track, load in loads.items() if load.deferred
        }
        rules = Rules(
            limits={row["tenant_id"]: limits_of(row, self._values) for row in tx.policies(tenants)},
            lanes=tx.lane_rules(),
            capacity=self._values.get(CAPACITY),
        )
        minutes = tx.minutes(tenants, now)
        admission = Admission(
            now, rules, loads, minutes, tx.job_loads(run.job for run in offered), tx.other_runs(_replacing(offered))
        )
        admission.offer(offered)
        deferred = self._reachable(tx, tx.deferred_runs(admission.wanted()), now)
        known = {run.job for run in offered}
        new = {run.job for run in deferred} - known
        admission.add_jobs(tx.job_loads(new), tx.other_runs(key for key in _replacing(deferred) if key not in known))
        return self._carry_out(tx, now, admission.decide(deferred), known=loads)

    def _reachable(self, tx: DispatchTransaction, runs: Sequence[WaitingRun], now: datetime) -> Sequence[WaitingRun]:
        return runs if self._targets is None else self._targets.pass_on(tx, runs, now)

    def _carry_out(
        self, tx: DispatchTransaction, now: datetime, decisions: Decisions, *, known: Iterable[Track]
    ) -> int:
        tx.skip(decisions.skips, now)
        tx.terminate(decisions.terminations, now, reason=REPLACED)
        tx.send(cancellations(decisions.terminations))
        if self._chains is not None and decisions.terminations:
            self._chains.follow(tx, terminated(decisions.terminations), now)
        started = tx.start(decisions.starts, now, queue_s=QUEUE_S)
        if len(started) != len(decisions.starts):
            raise RuntimeError("a run changed under the lock of admissions")
        self._hand_over(tx, now, started)
        tx.defer([(run, reason.value) for run, reason in decisions.deferrals], now)
        hinted_until = now + timedelta(seconds=HINT_AHEAD_S)
        tx.put_off(decisions.put_off, now, hinted_until=hinted_until)
        tx.send(
            messages.hints(
                [(run.tenant_id, run.run_id, run.lane, at) for run, at in decisions.put_off if at <= hinted_until]
            )
        )
        tx.insert_logs([*_waits(decisions, now), *_replaced(decisions, now)])
        tx.change_loads(decisions.changes, known)
        tx.set_minutes(decisions.minutes, now)
        _measure(decisions, started, now)
        return len(started)

    def _hand_over(self, tx: DispatchTransaction, now: datetime, started: Sequence[StartedRun]) -> None:
        calls = [run for run in started if run.task_type is TaskType.HTTP]
        if calls:
            keys = tx.call_keys(calls, secret_names, now)
            tx.send(_call_messages([_call(run, keys, now) for run in calls]))
        tx.send(
            messages.submission(
                tenant_id=run.tenant_id, run_id=run.run_id, generation=run.generation, attempt=run.attempt
            )
            for run in started
            if run.task_type is not TaskType.HTTP
        )


def secret_names(task: Mapping[str, Any]) -> set[str]:
    """The secrets that the headers and the body of an HTTP task name."""
    texts = [*map(str, (task.get("headers") or {}).values()), _body(task) or ""]
    return {name for text in texts for name in _SECRET.findall(text)}


def cancellations(runs: Iterable[OtherRun]) -> list[Message]:
    """The tasks of terminated runs are cancelled."""
    return [
        messages.cancellation(tenant_id=run.tenant_id, run_id=run.run_id, task_id=run.task_id)
        for run in runs
        if run.task_id is not None
    ]


def terminated(runs: Iterable[OtherRun]) -> list[EndedRun]:
    """The ends that jobs after these wait for."""
    return [EndedRun(run.tenant_id, run.job_id, run.run_id, run.scheduled_at, RunState.TERMINATED) for run in runs]


def log_line(run: WaitingRun | OtherRun | StartedRun, now: datetime, level: str, message: str, *, kind: str) -> LogLine:
    """Lines of one attempt differ in `kind`. A repeated line has the same id and is stored once."""
    log_id = uuid5(run.run_id, f"{kind}:{run.generation}:{run.attempt}:{now.isoformat()}")
    return LogLine(run.tenant_id, run.run_id, log_id, now, run.attempt, level, message)


def _replacing(runs: Sequence[WaitingRun]) -> list[JobKey]:
    return [run.job for run in runs if run.overlap_policy is OverlapPolicy.CANCEL_OTHER]


def _waits(decisions: Decisions, now: datetime) -> list[LogLine]:
    """One line when a run first waits; the run itself shows the present reason."""
    deferred = [
        log_line(run, now, "INFO", f"waits: {reason}", kind="waits")
        for run, reason in decisions.deferrals
        if run.defer_reason is None
    ]
    put_off = [
        log_line(run, now, "INFO", f"put off to {at.isoformat()}: tenant_rate", kind="waits")
        for run, at in decisions.put_off
        if run.defer_reason is None
    ]
    return deferred + put_off


def _replaced(decisions: Decisions, now: datetime) -> list[LogLine]:
    return [log_line(run, now, "WARN", f"terminated: {REPLACED}", kind="terminated") for run in decisions.terminations]


def _body(task: Mapping[str, Any]) -> str | None:
    body = task.get("body")
    return body if body is None or isinstance(body, str) else json.dumps(body, ensure_ascii=False)


def _call(run: StartedRun, keys: CallKeys, now: datetime) -> Call:
    task = run.task or {}
    names = secret_names(task)
    return Call(
        tenant_id=run.tenant_id,
        run_id=run.run_id,
        job_id=run.job_id,
        generation=run.generation,
        attempt=run.attempt,
        idempotency_key=idempotency_key(run.job_id, run.scheduled_at, run.generation),
        scheduled_at=run.scheduled_at,
        not_after=now + timedelta(seconds=CALL_WAIT_S),
        url=str(task["url"]),
        method=str(task.get("method") or "POST"),
        headers={str(name): str(value) for name, value in (task.get("headers") or {}).items()},
        body=_body({"body": rendered(task.get("body"), run.predecessors)}),
        timeout_s=run.timeout_s,
        success_statuses=[int(status) for status in task.get("successStatuses") or ()],
        secrets={name: value for name, value in keys.secrets.get(run.tenant_id, {}).items() if name in names},
        signing_keys=list(keys.signing_keys.get(run.tenant_id, ())),
        trace_id=run.trace_id,
    )


def _call_messages(calls: Sequence[Call]) -> list[Message]:
    """At most ten calls and 200 KB in a message."""
    batches: list[list[Call]] = []
    size = 0
    for call in calls:
        length = len(json.dumps(call.as_data(), ensure_ascii=False).encode())
        if not batches or len(batches[-1]) == messages.CALLS_PER_MESSAGE or size + length > messages.CALL_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(call)
        size += length
    return [messages.calls(batch) for batch in batches]


def _measure(decisions: Decisions, started: Sequence[StartedRun], now: datetime) -> None:
    if started:
        metrics.emit("RunsStarted", len(started))
        first = [run for run in started if run.attempt == 1 and run.generation == 1]
        if first:
            delay_s = max((now - run.assigned_at).total_seconds() for run in first)
            metrics.emit("RunStartDelaySeconds", delay_s, "Seconds")
    if throttled := len(decisions.put_off) + len(decisions.deferrals):
        metrics.emit("RunsThrottled", throttled)
    if decisions.skips:
        metrics.emit("RunsSkipped", len(decisions.skips))
