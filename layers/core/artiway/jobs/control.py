"""Terminates and replays runs on request, in the caller's transaction and under the lock of admissions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from artiway.jobs import messages
from artiway.jobs.admission import BY_JOB, Load, OtherRun, Track
from artiway.jobs.dispatch import Followers, cancellations, log_line, terminated
from artiway.jobs.model import ENDED, RunState
from artiway.jobs.runs import DueRun, LogLine
from artiway.outbox.model import Message


class ControlTransaction(Protocol):
    def send(self, messages: Iterable[Message]) -> None: ...
    def lock_admissions(self) -> datetime: ...
    def lock_runs(self, run_ids: Sequence[UUID]) -> list[OtherRun]: ...
    def terminate(self, runs: Sequence[OtherRun], now: datetime, *, reason: str) -> None: ...
    def replay(self, runs: Sequence[OtherRun], now: datetime) -> list[DueRun]: ...
    def change_loads(self, changes: Mapping[Track, Load], known: Iterable[Track] = ()) -> None: ...
    def insert_logs(self, lines: Sequence[LogLine]) -> None: ...


class ControlStore(Protocol):
    def joined(self, tx: Any) -> AbstractContextManager[ControlTransaction]: ...


class RunControl:
    def __init__(self, store: ControlStore, chains: Followers | None = None) -> None:
        self._store, self._chains = store, chains

    def terminate(self, tx: Any, run_ids: Sequence[UUID], *, reason: str) -> set[UUID]:
        """End runs that have not ended, and cancel their tasks. Returns those that this call ended."""
        with self._store.joined(tx) as run_tx:
            now = run_tx.lock_admissions()
            live = [run for run in run_tx.lock_runs(run_ids) if run.state not in ENDED]
            run_tx.terminate(live, now, reason=reason)
            changes: dict[Track, Load] = defaultdict(Load)
            for run in live:
                if run.state is RunState.RUNNING:
                    changes[run.track].running -= 1
                elif run.is_deferred and run.defer_reason in BY_JOB:
                    changes[run.track].blocked -= 1
                elif run.is_deferred:
                    changes[run.track].deferred -= 1
            run_tx.change_loads(changes, known=changes)
            run_tx.insert_logs([log_line(run, now, "WARN", f"terminated: {reason}", kind="terminated") for run in live])
            if self._chains is not None:
                self._chains.follow(run_tx, terminated(live), now)
            run_tx.send([*cancellations(live), *(messages.wake(lane) for lane in sorted({run.lane for run in live}))])
            return {run.run_id for run in live}

    def replay(self, tx: Any, run_ids: Sequence[UUID]) -> set[UUID]:
        """Start ended runs again, as the next generation. Returns those that this call replays."""
        with self._store.joined(tx) as run_tx:
            now = run_tx.lock_admissions()
            ended = [run for run in run_tx.lock_runs(run_ids) if run.state in ENDED]
            replayed = run_tx.replay(ended, now)
            run_tx.insert_logs([log_line(run, now, "INFO", "replayed", kind="replayed") for run in ended])
            run_tx.send(messages.hints(replayed))
            return {run.run_id for run in replayed}
