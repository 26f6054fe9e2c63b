"""Scheduled jobs in a simulated world: the run engine and PostgreSQL are real; queues, targets and time are not."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from artiway import bootstrap, ids
from artiway.bootstrap.base import pause
from artiway.bootstrap.jobs import job_secret_cipher
from artiway.jobs import fires, zones
from artiway.jobs.definitions.model import Actor
from artiway.jobs.messages import CALLS, RESULTS, SUBMISSIONS, Call, Outcome, Result
from artiway.jobs.model import RUN_LANES, Schedule, ScheduleType
from tests.simulation.chaos import until_crash
from tests.simulation.network import QueuedMessage
from tests.simulation.seeded import TICK_S, SimulatedWorld

COLUMNS = {
    "timezone": "UTC",
    "jitter_s": 0,
    "task_type": "HTTP",
    "task": {"url": "https://shop.example/hook"},
    "priority": "NORMAL",
    "max_attempts": 3,
    "base_delay_ms": 1_000,
    "max_delay_ms": 300_000,
    "concurrency_limit": 10,
    "overlap_policy": "ALLOW_ALL",
    "misfire_policy": "FIRE_ONCE",
    "catchup_window_s": 3_600,
    "timeout_s": 30,
}
Answer = Callable[[Call], tuple[Outcome, float]]


@dataclass(frozen=True)
class Attempt:
    """A call that the target received."""

    run_id: UUID
    generation: int
    attempt: int
    at: float


class NoCipher:
    """Stands for KMS. No simulated call uses what it returns."""

    def encrypt(self, *, tenant_id: UUID, name: str, value: str) -> bytes:
        return f"{tenant_id} {name} {len(value)}".encode()


class JobsWorld(SimulatedWorld):
    """`answer` decides for a call its outcome and how many seconds it takes; None: the caller crashes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        pause.supply(self._sleep)
        self.trigger, self.dispatch, self.results = bootstrap.trigger(), bootstrap.dispatch(), bootstrap.results()
        self.run_sweeper, self.fires, self.control = (
            bootstrap.run_sweeper(),
            bootstrap.fire_ahead(),
            bootstrap.run_control(),
        )
        self.submissions = bootstrap.submissions()
        job_secret_cipher.supply(NoCipher())
        self.definitions = bootstrap.jobs()
        self.users: dict[UUID, UUID] = {}
        self.calls: list[Attempt] = []
        self.answer: Callable[[Call], tuple[Outcome, float] | None] = lambda _: (Outcome.SUCCEEDED, 0.2)
        self.said: str | None = None
        self.most_running: Counter[UUID] = Counter()
        self.started: dict[tuple[UUID, datetime], int] = defaultdict(int)

    @property
    def now(self) -> datetime:
        return self.clock.now().astimezone(UTC)

    def _sleep(self, seconds: float) -> None:
        self.network.now += seconds + TICK_S

    # Definitions

    def job(self, tenant: tuple[UUID, UUID], expr: str | None = "0 * * * *", **changes: Any) -> UUID:
        """Store a job whose first fire lies after now, and make its first runs. `is_stored_only` leaves those to the
        trigger."""
        is_stored_only = changes.pop("is_stored_only", False)
        job_id, (tenant_id, user_id) = ids.new_id(), tenant
        self.users[tenant_id] = user_id
        row = {**COLUMNS, **changes, "expr": expr, "tenant_id": tenant_id, "user_id": user_id, "job_id": job_id}
        row.setdefault("name", f"job {job_id.hex[-6:]}")
        row["schedule_type"] = "CRON" if expr else "ONCE"
        schedule = Schedule(
            ScheduleType(row["schedule_type"]),
            expr,
            row.get("at"),
            row["timezone"],
            row["jitter_s"],
            None,
            row.get("ends_at"),
        )
        row["next_fire_at"] = row.get("next_fire_at") or fires.first_fire(schedule, self.now)
        row["tzdata_version"], row["task"] = zones.TZDATA_VERSION, json.dumps(row["task"])
        row["created_at"] = row["updated_at"] = self.now
        with self.database.tenant_transaction(tenant_id) as tx:
            names = ", ".join(row)
            places = ", ".join(f"%({name})s" for name in row)
            tx.run(f"INSERT INTO job ({names}) VALUES ({places})".encode(), row)
            if not is_stored_only and row["next_fire_at"] is not None:
                self.fires.fire_ahead(tx, self.stored_job(tx, tenant_id, job_id))
        return job_id

    def stored_job(self, tx: Any, tenant_id: UUID, job_id: UUID) -> Any:
        from artiway.jobs.repository import SQL
        from artiway.jobs.rows import job_of

        row = tx.one(SQL["job"].rstrip(b";") + b" FOR UPDATE", {"tenant_id": tenant_id, "job_id": job_id})
        return job_of(row)

    def edit(self, tenant_id: UUID, job_id: UUID, *, expr: str) -> None:
        self.definitions.update(self.actor(tenant_id), job_id, {"schedule": {"expr": expr}})

    def actor(self, tenant_id: UUID) -> Actor:
        """The user who made the jobs of a tenant."""
        return Actor(tenant_id, self.users[tenant_id], may_submit=True)

    def terminate(self, tenant_id: UUID, run_id: UUID) -> None:
        with self.database.tenant_transaction(tenant_id) as tx:
            self.control.terminate(tx, [run_id], reason="on request")

    def replay(self, tenant_id: UUID, run_id: UUID) -> None:
        with self.database.tenant_transaction(tenant_id) as tx:
            self.control.replay(tx, [run_id])

    # Messages

    def receive(self, message: QueuedMessage) -> None:
        data, kind = message.body.get("data", {}), message.destination
        if kind not in {*RUN_LANES, CALLS, SUBMISSIONS, RESULTS}:
            super().receive(message)
            return
        self.network.now += TICK_S
        self.note(kind, data)
        self.chaos.act(kind)
        if kind in RUN_LANES:
            run_ids = [UUID(run_id) for run_id in data["runIds"]]
            if run_ids:
                self.dispatch.admit(run_ids, due_at=datetime.fromisoformat(data["at"]))
            else:
                self.dispatch.wake()
        elif kind == CALLS:
            for one in data["calls"]:
                self._call(Call.from_data(one))
        elif kind == RESULTS:
            self.results.apply([Result.from_data(one) for one in data["results"]])
            bootstrap.backfill_release().release()
        elif message.body["type"] == "cancel":
            self.submissions.cancel(tenant_id=UUID(data["tenantId"]), task_id=UUID(data["taskId"]))
        else:
            self.submissions.submit(
                tenant_id=UUID(data["tenantId"]),
                run_id=UUID(data["runId"]),
                generation=data["generation"],
                attempt=data["attempt"],
            )

    def _call(self, call: Call) -> None:
        """The caller: no call after its time, and a result for each."""
        outcome: Outcome
        seconds = 0.0
        if self.now > call.not_after:
            outcome = Outcome.EXPIRED
        else:
            self.calls.append(Attempt(call.run_id, call.generation, call.attempt, self.network.now))
            answer = self.answer(call)
            if answer is None:
                return
            outcome, seconds = answer
        result = Result(
            tenant_id=call.tenant_id,
            run_id=call.run_id,
            generation=call.generation,
            attempt=call.attempt,
            outcome=outcome,
            at=self.now + timedelta(seconds=seconds),
            http_status={Outcome.SUCCEEDED: 200, Outcome.FAILED: 503, Outcome.REFUSED: 400}.get(outcome),
            elapsed_ms=int(seconds * 1_000),
            answer=self.said,
        )
        self.network.post(RESULTS, {"type": "results", "data": {"results": [result.as_data()]}}, seconds)

    def tick(self, seconds: float = 5) -> None:
        """Time passes, the trigger makes a pass, due messages are delivered."""
        self.advance(seconds)
        self.chaos.act("trigger")
        until_crash(self.trigger.run_pass)
        while self.deliver_one():
            pass

    def play(self, seconds: float, *, step: float = 0.25) -> None:
        """Let time pass evenly: the trigger makes a pass every five seconds, messages arrive when they are due."""
        end, next_pass = self.network.now + seconds, self.network.now
        while self.network.now < end:
            if self.network.now >= next_pass:
                self.trigger.run_pass()
                next_pass = self.network.now + 5
            while self.deliver_one():
                pass
            self.network.now += step

    def sweep_runs(self, *, is_slow: bool = False) -> None:
        actions: Mapping[str, Callable[[], object]] = {
            "relay": lambda: self.relay.sweep(age_s=0, limit=500),
            "run sweep": self.run_sweeper.quick,
            **({"slow run sweep": self.run_sweeper.slow} if is_slow else {}),
        }
        for name, action in actions.items():
            self.chaos.act(name)
            until_crash(action)

    def runs(self, job_id: UUID | None = None) -> list[dict[str, Any]]:
        return self.rows(
            "SELECT * FROM job_run WHERE %s::uuid IS NULL OR job_id = %s ORDER BY scheduled_at, job_id", job_id, job_id
        )

    def notes(self, job_id: UUID) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM job_fire_note WHERE job_id = %s ORDER BY first_at", job_id)

    def loads(self) -> Counter[tuple[Any, ...]]:
        """The counters as they are, and as the runs say, must be equal."""
        counted = Counter[tuple[Any, ...]]()
        for row in self.rows("SELECT tenant_id, lane, is_call, running, deferred, blocked FROM job_load"):
            for name in ("running", "deferred", "blocked"):
                if row[name]:
                    counted[row["tenant_id"], row["lane"], row["is_call"], name] = row[name]
        return counted

    def counted_runs(self) -> Counter[tuple[Any, ...]]:
        counted = Counter[tuple[Any, ...]]()
        for run in self.rows("SELECT * FROM job_run WHERE state = 'RUNNING' OR is_deferred"):
            by_job = run["defer_reason"] in ("overlap", "job_concurrency")
            name = "running" if run["state"] == "RUNNING" else "blocked" if by_job else "deferred"
            counted[run["tenant_id"], run["lane"], run["task_type"] == "HTTP", name] += 1
        return counted
