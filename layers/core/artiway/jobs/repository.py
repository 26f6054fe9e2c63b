"""Runs in PostgreSQL, a batch per statement. Plans do not depend on statistics: a new partition has none."""

from __future__ import annotations

import base64
import contextlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from artiway.jobs.admission import JobKey, JobLoad, LaneRule, Load, Minute, OtherRun, Track, WaitingRun
from artiway.jobs.fires import FireNote
from artiway.jobs.messages import Outcome, Result
from artiway.jobs.model import (
    RUN_LANES,
    CallKeys,
    Job,
    JobPriority,
    OverlapPolicy,
    RetryPolicy,
    RunKind,
    RunState,
    TaskType,
)
from artiway.jobs.rows import job_of
from artiway.jobs.runs import DueRun, EndedRun, LogLine, NewRun, RunningRun, StartedRun, Submission, TaskEnd
from artiway.outbox.model import Message
from artiway.outbox.repository import Outbox
from artiway.platform import sql
from artiway.platform.database import Database, Row, Transaction

SQL = sql.load("artiway.jobs")
FAILURES_S = 300
FEWEST_ENDED = 100
# Between the time in a run's id and its scheduled time.
_SLACK = timedelta(days=1)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class RunTransaction:
    """The open transaction. Messages are stored with its end and sent after the commit."""

    def __init__(self, tx: Transaction, ensured: set[date]) -> None:
        self._tx, self._ensured = tx, ensured
        self.messages: list[Message] = []

    @property
    def tx(self) -> Transaction:
        return self._tx

    def send(self, messages: Iterable[Message]) -> None:
        self.messages += messages

    def lock_admissions(self) -> datetime:
        """Until the commit no other transaction moves runs. Returns the database's time."""
        return self._now("lock_admissions")

    def use_indexes(self) -> datetime:
        return self._now("use_indexes")

    def ensure_days(self, moments: Iterable[datetime]) -> None:
        """Make the partitions of these days. A day that exists needs no statement."""
        days = {moment.date() for moment in moments} - self._ensured
        if days:
            self._tx.run(SQL["ensure_partitions"], {"days": sql.array(day.isoformat() for day in sorted(days))})
            self._tx.after_commit(lambda: self._ensured.update(days))

    def policies(self, tenant_ids: Iterable[UUID]) -> list[Row]:
        return self._tx.all(SQL["tenant_policies"], {"tenant_ids": sql.array(sorted(set(tenant_ids)))})

    # Fires

    def due_jobs(self, now: datetime, *, until: datetime, limit: int) -> list[Job]:
        rows = self._tx.all(SQL["lock_due_jobs"], {"now": now, "until": until, "limit": limit})
        return [job_of(row) for row in rows]

    def stale_zones(self, *, version: str, limit: int) -> list[Job]:
        return [job_of(row) for row in self._tx.all(SQL["lock_stale_zones"], {"version": version, "limit": limit})]

    def set_zones(self, nexts: Sequence[tuple[Job, datetime | None]], *, version: str) -> None:
        self._tx.run(
            SQL["set_zones"],
            {
                "tenant_ids": sql.array(job.tenant_id for job, _ in nexts),
                "job_ids": sql.array(job.job_id for job, _ in nexts),
                "next_fire_ats": _times(at for _, at in nexts),
                "version": version,
            },
        )

    def advance(self, jobs: Sequence[tuple[Job, datetime | None, datetime | None]]) -> None:
        """Set the next and the last nominal time of jobs that this transaction has locked."""
        if jobs:
            self._tx.run(
                SQL["advance_jobs"],
                {
                    "tenant_ids": sql.array(job.tenant_id for job, _, _ in jobs),
                    "job_ids": sql.array(job.job_id for job, _, _ in jobs),
                    "next_fire_ats": _times(at for _, at, _ in jobs),
                    "last_fire_ats": _times(at for _, _, at in jobs),
                },
            )

    def insert_runs(self, runs: Sequence[NewRun], now: datetime) -> set[UUID]:
        """Returns those that did not exist."""
        if not runs:
            return set()
        self.ensure_days(run.scheduled_at for run in runs)
        rows = self._tx.all(
            SQL["insert_runs"],
            {
                "tenant_ids": sql.array(run.tenant_id for run in runs),
                "run_ids": sql.array(run.run_id for run in runs),
                "job_ids": sql.array(run.job_id for run in runs),
                "scheduled_ats": _times(run.scheduled_at for run in runs),
                "assigned_ats": _times(run.assigned_at for run in runs),
                "hinted_ats": _times(now if run.is_hinted else None for run in runs),
                "kinds": sql.array(run.kind for run in runs),
                "task_types": sql.array(run.task_type for run in runs),
                "lanes": sql.array(run.lane for run in runs),
                "job_versions": sql.array(run.job_version for run in runs),
                "trace_ids": sql.array(run.trace_id for run in runs),
                "now": now,
            },
        )
        return {row["run_id"] for row in rows}

    def insert_notes(self, notes: Sequence[tuple[JobKey, FireNote]], now: datetime) -> None:
        if notes:
            rows = [
                {
                    "tenant_id": key.tenant_id,
                    "job_id": key.job_id,
                    "first_at": note.first_at,
                    "last_at": note.last_at,
                    "outcome": note.outcome,
                    "fires": note.fires,
                    "reason": note.reason,
                }
                for key, note in notes
            ]
            self._tx.run(SQL["insert_notes"], {"notes": _json(rows), "now": now})

    def complete_jobs(self, now: datetime, *, limit: int) -> int:
        return self._tx.run(SQL["complete_jobs"], {"now": now, "limit": limit})

    def lag_s(self, now: datetime) -> float:
        row = self._tx.one(SQL["lag"], {"now": now})
        return max(0.0, float(row["lag_s"] or 0.0)) if row else 0.0

    def hint_again(
        self, now: datetime, *, until: datetime, overdue: datetime, resend: datetime, limit: int
    ) -> list[DueRun]:
        """Runs that no message announces, or whose message seems lost."""
        rows = self._tx.all(
            SQL["hint_again"], {"now": now, "until": until, "overdue": overdue, "resend": resend, "limit": limit}
        )
        return sorted((DueRun(**row) for row in rows), key=lambda run: (run.due_at, run.run_id))

    def retract(self, key: JobKey, now: datetime) -> list[datetime]:
        """Delete runs that were created ahead. Returns their scheduled times."""
        rows = self._tx.all(SQL["retract_runs"], {**key._asdict(), "now": now, "since": now - timedelta(days=2)})
        return sorted(row["scheduled_at"] for row in rows)

    def job(self, key: JobKey) -> Job | None:
        row = self._tx.one(SQL["job"], key._asdict())
        return None if row is None else job_of(row)

    # Admission

    def due_runs(self, run_ids: Sequence[UUID]) -> list[WaitingRun]:
        return [_waiting(row) for row in self._by_id("due_runs", run_ids)] if run_ids else []

    def blocked_runs(self, jobs: Sequence[JobKey]) -> list[WaitingRun]:
        return [_waiting(row) for row in self._tx.all(SQL["blocked_runs"], _keys(jobs))] if jobs else []

    def blocked_jobs(self, *, limit: int) -> list[JobKey]:
        tenants = [row["tenant_id"] for row in self._tx.all(SQL["blocked_tenants"])]
        if not tenants:
            return []
        rows = self._tx.all(SQL["blocked_jobs"], {"tenant_ids": sql.array(tenants), "limit": limit})
        return sorted(JobKey(row["tenant_id"], row["job_id"]) for row in rows)

    def deferred_runs(self, wanted: Mapping[Track, int]) -> list[WaitingRun]:
        if not wanted:
            return []
        tracks = sorted(wanted)
        rows = self._tx.all(
            SQL["deferred_runs"],
            {**_tracks(tracks), "counts": sql.array(wanted[track] for track in tracks)},
        )
        return [_waiting(row) for row in rows]

    def job_loads(self, jobs: Iterable[JobKey]) -> dict[JobKey, JobLoad]:
        keys = sorted(set(jobs))
        rows = self._tx.all(SQL["job_loads"], _keys(keys)) if keys else []
        return {
            JobKey(row["tenant_id"], row["job_id"]): JobLoad(row["running"], row["retrying"], row["waiting"])
            for row in rows
        }

    def other_runs(self, jobs: Iterable[JobKey]) -> list[OtherRun]:
        keys = sorted(set(jobs))
        return [_other(row) for row in self._tx.all(SQL["other_runs"], _keys(keys))] if keys else []

    def loads(self) -> dict[Track, Load]:
        return {
            Track(row["tenant_id"], row["lane"], row["is_call"]): Load(row["running"], row["deferred"], row["blocked"])
            for row in self._tx.all(SQL["loads"])
        }

    def minutes(self, tenant_ids: Iterable[UUID], now: datetime) -> dict[UUID, Minute]:
        """Counts of an earlier minute are over; its slots are not."""
        minute = now.replace(second=0, microsecond=0)
        return {
            row["tenant_id"]: Minute(row["started"], row["put_off"], row["slot_at"])
            if row["minute"] == minute
            else Minute(slot_at=row["slot_at"])
            for row in self._tx.all(SQL["minutes"], {"tenant_ids": sql.array(sorted(set(tenant_ids)))})
        }

    def lane_rules(self) -> dict[str, LaneRule]:
        rows = self._tx.all(SQL["lane_rules"], {"lanes": list(RUN_LANES)})
        return {row["lane"]: LaneRule(row["is_paused"], row["parallelism"]) for row in rows}

    def start(self, runs: Sequence[WaitingRun], now: datetime, *, queue_s: int) -> list[StartedRun]:
        if not runs:
            return []
        rows = self._tx.all(
            SQL["start_runs"],
            {**_places(runs), "lease_s": sql.array(run.timeout_s + queue_s for run in runs), "now": now},
        )
        started = [StartedRun(**{**row, "task_type": TaskType(row["task_type"])}) for row in rows]
        return sorted(started, key=lambda run: (run.due_at, run.run_id))

    def call_keys(self, runs: Sequence[StartedRun], names: Callable[[Any], Iterable[str]], now: datetime) -> CallKeys:
        """The secrets that the runs name and the keys that sign; ciphertexts in base64."""
        named = sorted({(run.tenant_id, name) for run in runs for name in names(run.task or {})})
        return self.keys_of(named, sorted({run.tenant_id for run in runs}), now)

    def keys_of(self, named: Sequence[tuple[UUID, str]], tenants: Sequence[UUID], now: datetime) -> CallKeys:
        """The secrets that are named, by tenant and name, and the keys of the tenants."""
        secrets: dict[UUID, dict[str, str]] = defaultdict(dict)
        if named:
            given = {"tenant_ids": sql.array(tenant for tenant, _ in named), "names": [name for _, name in named]}
            for row in self._tx.all(SQL["secrets"], given):
                secrets[row["tenant_id"]][row["name"]] = _base64(row["ciphertext"])
        keys = {
            row["tenant_id"]: [_base64(key) for key in (row["ciphertext"], row["previous"]) if key is not None]
            for row in self._tx.all(SQL["signing_keys"], {"tenant_ids": sql.array(tenants), "now": now})
        }
        return CallKeys(secrets, keys)

    def defer(self, runs: Sequence[tuple[WaitingRun, str]], now: datetime) -> None:
        if runs:
            reasons = sql.array(reason for _, reason in runs)
            self._tx.run(SQL["defer_runs"], {**_places([run for run, _ in runs]), "reasons": reasons, "now": now})

    def put_off(self, runs: Sequence[tuple[WaitingRun, datetime]], now: datetime, *, hinted_until: datetime) -> None:
        if runs:
            given = {
                "due_ats": _times(at for _, at in runs),
                "hinted_ats": _times(now if at <= hinted_until else None for _, at in runs),
            }
            self._tx.run(SQL["put_off_runs"], {**_places([run for run, _ in runs]), **given, "now": now})

    def skip(self, runs: Sequence[WaitingRun], now: datetime) -> None:
        if runs:
            self._tx.run(SQL["skip_runs"], {**_places(runs), "now": now})

    def terminate(self, runs: Sequence[OtherRun], now: datetime, *, reason: str) -> None:
        if runs:
            self._tx.run(SQL["terminate_runs"], {**_places(runs), "now": now, "reason": reason})

    def lock_runs(self, run_ids: Sequence[UUID]) -> list[OtherRun]:
        return [_other(row) for row in self._by_id("lock_runs", run_ids)] if run_ids else []

    def replay(self, runs: Sequence[OtherRun], now: datetime) -> list[DueRun]:
        rows = self._tx.all(SQL["replay_runs"], {**_places(runs), "now": now}) if runs else []
        return [DueRun(**row) for row in rows]

    def change_loads(self, changes: Mapping[Track, Load], known: Iterable[Track] = ()) -> None:
        """Add to the counters. `known` have a row already."""
        tracks = sorted(track for track, load in changes.items() if load != Load())
        if not tracks:
            return
        if new := sorted({*tracks} - {*known}):
            self._tx.run(SQL["add_loads"], _tracks(new))
        counts = {
            name: sql.array(getattr(changes[track], name) for track in tracks)
            for name in ("running", "deferred", "blocked")
        }
        self._tx.run(SQL["change_loads"], {**_tracks(tracks), **counts})

    def set_minutes(self, minutes: Mapping[UUID, Minute], now: datetime) -> None:
        if minutes:
            tenants = sorted(minutes)
            self._tx.run(
                SQL["set_minutes"],
                {
                    "tenant_ids": sql.array(tenants),
                    "minutes": _times([now.replace(second=0, microsecond=0)] * len(tenants)),
                    "started": sql.array(minutes[tenant].started for tenant in tenants),
                    "put_off": sql.array(minutes[tenant].put_off for tenant in tenants),
                    "slot_ats": _times(minutes[tenant].slot_at for tenant in tenants),
                },
            )

    # Results

    def running(self, run_ids: Sequence[UUID]) -> dict[UUID, RunningRun]:
        rows = self._by_id("running_runs", run_ids) if run_ids else []
        return {row["run_id"]: _running(row) for row in rows}

    def finish(self, ends: Sequence[EndedRun], now: datetime) -> set[UUID]:
        """Returns the runs that changed."""
        if not ends:
            return set()
        rows = [
            {
                "tenant_id": end.run.tenant_id,
                "job_id": end.run.job_id,
                "scheduled_at": end.run.scheduled_at,
                "generation": end.run.generation,
                "attempt": end.run.attempt,
                "state": end.state,
                "due_at": end.due_at,
                "hinted_at": now if end.is_hinted else None,
                "http_status": end.result.http_status,
                "answer": _text(end.result.answer, 4_000),
                "error": _text(end.error, 1_000),
            }
            for end in ends
        ]
        return {row["run_id"] for row in self._tx.all(SQL["finish_runs"], {"ends": _json(rows), "now": now})}

    def insert_results(self, results: Sequence[Result]) -> None:
        if results:
            self.ensure_days(result.at for result in results)
            rows = [
                {
                    "tenant_id": result.tenant_id,
                    "run_id": result.run_id,
                    "generation": result.generation,
                    "attempt": result.attempt,
                    "outcome": result.outcome,
                    "http_status": result.http_status,
                    "error": _text(result.error, 1_000),
                    "answer": _text(result.answer, 4_000),
                    "retry_after_s": result.retry_after_s,
                    "elapsed_ms": result.elapsed_ms,
                    "at": result.at,
                }
                for result in results
            ]
            self._tx.run(SQL["insert_results"], {"results": _json(rows)})

    def known_results(self, results: Sequence[Result]) -> set[tuple[UUID, int, int, datetime]]:
        """Those of the results that are stored."""
        if not results:
            return set()
        given = {
            "run_ids": sql.array(one.run_id for one in results),
            "generations": sql.array(one.generation for one in results),
            "attempts": sql.array(one.attempt for one in results),
            "ats": _times(one.at for one in results),
        }
        rows = self._tx.all(SQL["known_results"], given)
        return {(row["run_id"], row["generation"], row["attempt"], row["at"]) for row in rows}

    def insert_logs(self, lines: Sequence[LogLine]) -> None:
        if lines:
            self.ensure_days(line.at for line in lines)
            rows = [{**line._asdict(), "message": _text(line.message, 4_000)} for line in lines]
            self._tx.run(SQL["insert_logs"], {"lines": _json(rows)})

    def ended_tasks(self, run_ids: Sequence[UUID]) -> dict[UUID, TaskEnd]:
        rows = self._by_id("ended_tasks", run_ids) if run_ids else []
        return {
            row["run_id"]: TaskEnd(row["task_id"], row["status"], row["error"] or {}, row["ended_at"]) for row in rows
        }

    def expired_leases(self, now: datetime, *, limit: int) -> list[UUID]:
        return [row["run_id"] for row in self._tx.all(SQL["expired_leases"], {"now": now, "limit": limit})]

    def unwritten_results(self, *, ended: datetime, limit: int) -> list[Result]:
        rows = self._tx.all(SQL["unwritten_results"], {"ended": ended, "limit": limit})
        return [Result(**{**row, "outcome": Outcome(row["outcome"])}) for row in rows]

    def recount(self) -> int:
        return len(self._tx.all(SQL["recount_loads"]))

    # Submissions

    def lock_submission(self, *, run_id: UUID, generation: int, attempt: int) -> Submission | None:
        """The run, locked until the commit, if this attempt of it waits to be submitted."""
        given = {"run_id": run_id, "generation": generation, "attempt": attempt, **_days([run_id])}
        row = self._tx.one(SQL["lock_submission"], given)
        if row is None:
            return None
        row.pop("task_id")
        return Submission(
            **{**row, "task_type": TaskType(row["task_type"]), "priority": JobPriority(row["priority"])},
        )

    def note_task(self, submission: Submission, task_id: UUID) -> None:
        self._tx.run(
            SQL["note_task"],
            {
                "run_id": submission.run_id,
                "scheduled_at": submission.scheduled_at,
                "generation": submission.generation,
                "attempt": submission.attempt,
                "task_id": task_id,
            },
        )

    def _now(self, query: str) -> datetime:
        row = self._tx.one(SQL[query])
        assert row is not None
        return row["now"]  # type: ignore[no-any-return]

    def _by_id(self, query: str, run_ids: Sequence[UUID]) -> list[Row]:
        return self._tx.all(SQL[query], {"run_ids": sql.array(sorted(set(run_ids))), **_days(run_ids)})


class PostgresRuns:
    """Transactions on runs: of all tenants as `artiway_service`, or inside an open one of a tenant."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database, self._outbox = database, outbox
        self._ensured: set[date] = set()

    @contextlib.contextmanager
    def open(self) -> Iterator[RunTransaction]:
        with self._database.service_transaction() as tx:
            run_tx = RunTransaction(tx, self._ensured)
            yield run_tx
            self._outbox.publish(tx, run_tx.messages)

    @contextlib.contextmanager
    def open_tenant(self, tenant_id: UUID) -> Iterator[RunTransaction]:
        with self._database.tenant_transaction(tenant_id) as tx:
            run_tx = RunTransaction(tx, self._ensured)
            yield run_tx
            self._outbox.publish(tx, run_tx.messages)

    @contextlib.contextmanager
    def joined(self, tx: Transaction) -> Iterator[RunTransaction]:
        """Inside a transaction that the caller has opened and commits."""
        run_tx = RunTransaction(tx, self._ensured)
        yield run_tx
        self._outbox.publish(tx, run_tx.messages)


class PostgresReadings:
    """What operators see of the run engine at this moment, over all tenants."""

    def __init__(self, service_database: Database) -> None:
        self._database = service_database

    def lag_s(self) -> float:
        """How long the oldest fire is over that is neither a run nor a note. A trigger that works ahead leaves none."""
        row = self._read("lag")
        return max(0.0, float(row["lag_s"] or 0.0))

    def backlog(self) -> int:
        row = self._read("backlog")
        return int(row["runs"])

    def failed_percent(self) -> float:
        """Of the runs that ended in the last five minutes. Of less than a hundred it says nothing and is 0."""
        row = self._read("ended_runs", since_s=FAILURES_S)
        return 100 * row["failed"] / row["ended"] if row["ended"] >= FEWEST_ENDED else 0.0

    def _read(self, query: str, *, since_s: int = 0) -> Row:
        with self._database.service_transaction() as tx:
            found = tx.one(SQL["use_indexes"])
            assert found is not None
            now: datetime = found["now"]
            row = tx.one(SQL[query], {"now": now, "since": now - timedelta(seconds=since_s)})
            assert row is not None
            return row


def _waiting(row: Row) -> WaitingRun:
    return WaitingRun(
        **{
            **row,
            "task_type": TaskType(row["task_type"]),
            "state": RunState(row["state"]),
            "kind": RunKind(row["kind"]),
            "overlap_policy": OverlapPolicy(row["overlap_policy"]),
        }
    )


def _other(row: Row) -> OtherRun:
    return OtherRun(**{**row, "task_type": TaskType(row["task_type"]), "state": RunState(row["state"])})


def _running(row: Row) -> RunningRun:
    retry = RetryPolicy(row.pop("max_attempts"), row.pop("base_delay_ms"), row.pop("max_delay_ms"))
    return RunningRun(
        **{**row, "task_type": TaskType(row["task_type"]), "state": RunState(row["state"]), "retry": retry}
    )


def _days(run_ids: Sequence[UUID]) -> dict[str, datetime]:
    """The days in which runs with these ids can lie."""
    moments = [_EPOCH + timedelta(milliseconds=run_id.int >> 80) for run_id in run_ids]
    return {"since": min(moments) - _SLACK, "until": max(moments) + _SLACK}


def _keys(jobs: Sequence[JobKey]) -> dict[str, str]:
    return {
        "tenant_ids": sql.array(key.tenant_id for key in jobs),
        "job_ids": sql.array(key.job_id for key in jobs),
    }


def _places(runs: Sequence[WaitingRun | OtherRun]) -> dict[str, str]:
    """The primary keys of runs."""
    return {
        "tenant_ids": sql.array(run.tenant_id for run in runs),
        "job_ids": sql.array(run.job_id for run in runs),
        "scheduled_ats": _times(run.scheduled_at for run in runs),
    }


def _tracks(tracks: Sequence[Track]) -> dict[str, str]:
    return {
        "tenant_ids": sql.array(track.tenant_id for track in tracks),
        "lanes": sql.array(track.lane for track in tracks),
        "calls": sql.array(str(track.is_call).lower() for track in tracks),
    }


def _times(times: Iterable[datetime | None]) -> str:
    return sql.array("NULL" if at is None else at.isoformat() for at in times)


def _json(rows: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(rows, ensure_ascii=False, default=str)


def _text(text: str | None, longest: int) -> str | None:
    """PostgreSQL stores no NUL and no lone surrogate."""
    if text is None:
        return None
    return text[:longest].replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _base64(value: bytes | memoryview) -> str:
    return base64.b64encode(bytes(value)).decode("ascii")
