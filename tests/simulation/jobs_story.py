"""What tenants, targets and operators do in a simulated world of jobs, and its faults, chosen by the seed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from artiway import ids
from artiway.errors import ArtiwayError
from artiway.jobs.definitions.model import Actor
from artiway.jobs.messages import Call, Outcome
from tests.simulation.chaos import Crash
from tests.simulation.jobs_world import JobsWorld
from tests.simulation.seeded import Simulation

STEPS = 70
SHOWN = 30
EXPRESSIONS = ["*/10 * * * * ?", "*/7 * * * * ?", "*/20 * * * * ?", "0 * * * * ?", "30 */2 * * * ?", "* * * * *"]
POLICIES = ["ALLOW_ALL", "ALLOW_ALL", "SKIP", "BUFFER_ONE", "BUFFER_ALL", "CANCEL_OTHER"]
PICTURE = "inp_" + "0" * 31 + "1"
FLOW = {"nodes": [{"name": "a", "tool": "derive", "inputs": {"product": PICTURE}}]}
LIMITS = {"job_concurrency": 3, "job_per_minute": 15}


@dataclass
class Segment:
    """A schedule in force: since when, until when. `latest` is the highest time that the clock showed by then."""

    expr: str
    since: datetime
    until: datetime | None = None
    latest: datetime | None = None


@dataclass
class KnownJob:
    tenant_id: UUID
    job_id: UUID
    version: int
    segments: list[Segment] = field(default_factory=list)
    once_at: datetime | None = None


class JobsStory:
    def __init__(self, world: JobsWorld) -> None:
        self.world, self.random = world, world.random
        self.tenants = [
            world.tenant("enterprise"),
            world.tenant("vip", **LIMITS, job_period_s=1),
            world.tenant("free", job_period_s=1),
        ]
        world.answer = self.answer
        for name in ("w1", "w2"):
            world.worker(name)
        self.jobs: list[KnownJob] = []
        self.latest = world.now

    def play(self, steps: int) -> None:
        for _ in range(3):
            with contextlib.suppress(Crash):
                self.create()
        for number in range(steps):
            self.act()
            if number % 3 == 0:
                self.check_limits()

    def act(self) -> None:
        moves = {
            self.pass_time: 34,
            self.deliver: 34,
            self.work: 6,
            self.create: 4,
            self.edit: 3,
            self.edit_at_fire_time: 3,
            self.pause: 3,
            self.resume: 4,
            self.terminate: 3,
            self.replay: 3,
            self.fire_now: 3,
            self.delete: 1,
            self.sweep: 9,
            self.outage: 1,
            self.step_clock: 2,
            self.suspend: 1,
        }
        (move,) = self.random.choices(list(moves), list(moves.values()))
        self.world.note(move.__name__)
        self.world.chaos.act("story")
        with contextlib.suppress(Crash, ArtiwayError):
            move()
        self.note_changes()

    def answer(self, _call: Call) -> tuple[Outcome, float] | None:
        chance = self.random.random()
        if chance < 0.66:
            return Outcome.SUCCEEDED, self.random.choice([0.05, 0.4, 3])
        if chance < 0.80:
            return Outcome.FAILED, self.random.choice([0.05, 2])
        if chance < 0.85:
            return Outcome.REFUSED, 0.1
        if chance < 0.93:
            return self.random.choice([Outcome.SUCCEEDED, Outcome.FAILED]), self.random.choice([12, 45, 200, 400])
        return None  # the caller crashed after the call

    # Moves

    def pass_time(self) -> None:
        self.world.tick(self.random.choice([0.2, 1, 3, 5, 5, 12]))

    def deliver(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            self.world.deliver_one()

    def work(self) -> None:
        worker = self.random.choice(self.world.workers)
        if worker.held:
            holding = self.random.choice(worker.held)
            if self.random.random() < 0.7:
                self.world.finish(worker, holding)
            else:
                self.world.fail(worker, holding, is_retryable=self.random.random() < 0.5)

    def create(self) -> None:
        if len(self.jobs) >= 7:
            return
        tenant, chance = self.random.choice(self.tenants), self.random.random()
        changes = {
            "overlap_policy": self.random.choice(POLICIES),
            "misfire_policy": self.random.choice(["FIRE_ONCE", "FIRE_ALL", "SKIP"]),
            "catchup_window_s": self.random.choice([0, 60, 600]),
            "priority": self.random.choice(["CRITICAL", "NORMAL", "LOW"]),
            "concurrency_limit": self.random.choice([1, 2, 10]),
            "max_attempts": self.random.choice([1, 2, 4]),
            "max_delay_ms": self.random.choice([2_000, 20_000]),
            "jitter_s": self.random.choice([0, 0, 0, 4, 30]),
            "timeout_s": self.random.choice([5, 30]),
        }
        if chance < 0.15:
            changes |= {"task_type": "FLOW", "task": FLOW, "timeout_s": 300}
        at = self.world.now.replace(microsecond=0) + timedelta(seconds=self.random.choice([1, 2, 40, 130]))
        is_once = self.random.random() < 0.15
        expr = None if is_once else self.random.choice(EXPRESSIONS)
        since = self.world.now
        try:
            self.world.job(tenant, expr, **changes, **({"at": at} if is_once else {}))
        finally:  # a crash after the commit leaves the job
            known = {job.job_id for job in self.jobs}
            for row in self.world.rows("SELECT tenant_id, job_id, version FROM job ORDER BY job_id"):
                if row["job_id"] not in known:
                    job = KnownJob(row["tenant_id"], row["job_id"], row["version"], once_at=at if is_once else None)
                    job.segments = [] if expr is None else [Segment(expr, since)]
                    self.jobs.append(job)

    def edit(self) -> None:
        jobs = [job for job in self.jobs if job.once_at is None]
        if jobs:
            job = self.random.choice(jobs)
            self.world.edit(job.tenant_id, job.job_id, expr=self.random.choice(EXPRESSIONS))

    def edit_at_fire_time(self) -> None:
        """Exactly when a run is due, before or after the dispatcher has seen it."""
        due = self.world.rows(
            "SELECT job_id, min(due_at) AS due_at FROM job_run WHERE state = 'PENDING' AND NOT is_deferred"
            " GROUP BY job_id ORDER BY job_id"
        )
        ahead = [row for row in due if row["due_at"] > self.world.now]
        if not ahead:
            return
        row = self.random.choice(ahead)
        if (row["due_at"] - self.world.now).total_seconds() > 30:
            return
        self.world.network.now += (row["due_at"] - self.world.now).total_seconds()
        if self.random.random() < 0.5:
            self.deliver()
        job = next(job for job in self.jobs if job.job_id == row["job_id"])
        if self.random.random() < 0.5:
            self.world.definitions.pause(self.world.actor(job.tenant_id), job.job_id, "at its fire time")
        elif job.once_at is None:
            self.world.edit(job.tenant_id, job.job_id, expr=self.random.choice(EXPRESSIONS))

    def pause(self) -> None:
        if job := self._job("ACTIVE"):
            self.world.definitions.pause(*job, "a note")

    def resume(self) -> None:
        if job := self._job("PAUSED"):
            self.world.definitions.resume(*job, None)

    def delete(self) -> None:
        if len(self.jobs) > 3 and (job := self._job("ACTIVE")):
            self.world.definitions.delete(*job)

    def _job(self, status: str) -> tuple[Actor, UUID] | None:
        rows = self.world.rows("SELECT tenant_id, job_id FROM job WHERE status = %s ORDER BY job_id", status)
        row = self.random.choice(rows) if rows else None
        return None if row is None else (self.world.actor(row["tenant_id"]), row["job_id"])

    def terminate(self) -> None:
        if run := self._run("state IN ('PENDING', 'RUNNING', 'RETRYING') AND due_at <= now()"):
            self.world.terminate(run["tenant_id"], run["run_id"])

    def replay(self) -> None:
        if run := self._run("state IN ('SUCCESS', 'FAILED', 'TERMINATED') AND generation < 4"):
            self.world.replay(run["tenant_id"], run["run_id"])

    def fire_now(self) -> None:
        if self.jobs:
            job = self.random.choice(self.jobs)
            self.world.definitions.trigger(self.world.actor(job.tenant_id), job.job_id)

    def _run(self, condition: str) -> dict[str, UUID] | None:
        condition = condition.replace("now()", f"'{self.world.now.isoformat()}'")
        rows = self.world.rows(f"SELECT tenant_id, run_id FROM job_run WHERE {condition} ORDER BY run_id")
        return self.random.choice(rows) if rows else None

    def sweep(self) -> None:
        self.world.sweep_runs(is_slow=self.random.random() < 0.3)
        if self.random.random() < 0.3:
            self.world.beat()
            self.world.sweep()

    def outage(self) -> None:
        """No process runs for minutes."""
        self.world.advance(self.random.choice([70, 130, 400]))

    def step_clock(self) -> None:
        """The database moves to a host whose clock differs."""
        self.latest = max(self.latest, self.world.now)
        self.world.advance(self.random.choice([-3, -0.7, 0.7, 4]))

    def suspend(self) -> None:
        tenant_id, _ = self.random.choice(self.tenants)
        self.world.superuser.execute(
            b"UPDATE tenant SET status = CASE status WHEN 'ACTIVE' THEN 'SUSPENDED' ELSE 'ACTIVE' END"
            b" WHERE tenant_id = %s",
            [tenant_id],
        )

    # What is known

    def note_changes(self) -> None:
        """A change that committed ends a segment, also if the process crashed after it."""
        found = self.world.rows("SELECT job_id, version, status, expr, updated_at FROM job")
        rows = {row["job_id"]: row for row in found}
        for job in self.jobs:
            row = rows[job.job_id]
            if row["version"] == job.version:
                continue
            job.version = row["version"]
            if row["status"] == "COMPLETED" or job.once_at is not None:
                continue
            if job.segments and job.segments[-1].until is None:
                job.segments[-1].until, job.segments[-1].latest = row["updated_at"], self.latest
            if row["status"] == "ACTIVE":
                job.segments.append(Segment(row["expr"], row["updated_at"]))

    def check_limits(self) -> None:
        world = self.world
        assert world.loads() == world.counted_runs()
        running = world.rows(
            "SELECT tenant_id, count(*) AS runs FROM job_run WHERE state = 'RUNNING' GROUP BY tenant_id"
        )
        at_once = {self.tenants[0][0]: 200, self.tenants[1][0]: LIMITS["job_concurrency"], self.tenants[2][0]: 10}
        assert all(row["runs"] <= at_once[row["tenant_id"]] for row in running)
        minute = world.now.replace(second=0, microsecond=0)
        started = world.rows(
            "SELECT count(*) AS runs FROM job_run WHERE tenant_id = %s AND started_at >= %s AND started_at < %s",
            *(self.tenants[1][0], minute, minute + timedelta(minutes=1)),
        )
        assert started[0]["runs"] <= LIMITS["job_per_minute"]
        serial = world.rows(
            "SELECT run.job_id FROM job_run AS run JOIN job USING (tenant_id, job_id)"
            " WHERE state = 'RUNNING' AND overlap_policy <> 'ALLOW_ALL' GROUP BY run.job_id HAVING count(*) > 1"
        )
        assert serial == []

    def end(self, *, rounds: int = 150) -> None:
        """Without faults and further fires, every run ends by deliveries and sweeps alone."""
        world = self.world
        world.chaos.stop()
        world.superuser.execute(b"UPDATE tenant SET status = 'ACTIVE'")
        world.answer = lambda _: (Outcome.SUCCEEDED, 0.1)
        world.tick(100)
        crons = "SELECT tenant_id, job_id FROM job WHERE status = 'ACTIVE' AND expr IS NOT NULL ORDER BY job_id"
        for row in world.rows(crons):
            world.definitions.pause(world.actor(row["tenant_id"]), row["job_id"], None)
        self.note_changes()
        live: list[dict[str, object]] = []
        for number in range(rounds):
            world.tick(5 if number < 40 else 20)
            for worker in world.workers:
                for holding in list(worker.held):
                    world.finish(worker, holding)
            world.sweep_runs(is_slow=number % 5 == 4)
            if number % 3 == 2:
                world.beat()
                world.sweep(is_slow=number % 9 == 8)
            live = world.rows(
                "SELECT run_id, state, due_at, defer_reason, lease_until, task_id FROM job_run WHERE ended_at IS NULL"
            )
            paused = world.rows("SELECT 1 FROM job WHERE status = 'ACTIVE' AND expr IS NULL AND last_fire_at IS NULL")
            if not live and not paused and not world.network.messages and not world.unsent():
                return
        raise AssertionError(f"not ended at {world.now}: {live}")


@contextlib.contextmanager
def jobs_played(simulation: Simulation, seed: int, *, steps: int = STEPS) -> Iterator[JobsStory]:
    """The whole run of a seed, until every run has ended."""
    simulation._clear()
    world = JobsWorld(simulation, simulation.redis, seed=seed)
    with ids.drawn_from(world.draw_id), contextlib.closing(world):
        try:
            story = JobsStory(world)
            chaos = world.chaos
            chaos.crash, chaos.duplicate, chaos.refuse = 0.004, 0.12, 0.02
            chaos.lose, chaos.delay = 0.02, 0.08
            story.play(steps)
            story.end()
            yield story
        except Exception as error:
            error.add_note(f"to repeat it: ARTIWAY_SEED={seed}. The end of the trace:")
            for line in world.trace[-SHOWN:]:
                error.add_note(line[:200])
            raise
