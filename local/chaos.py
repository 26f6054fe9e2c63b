"""`make chaos`: kills workers, callers, servers and the launcher under tasks and jobs, then checks what became of them.

    python -m local.chaos [--tasks 200] [--jobs 500] [--tenants 10] [--minutes 20] [--seed 1]

It uses the stack that runs in ARTIWAY_HOME. If none runs there, it starts one in ARTIWAY_HOME/chaos, lets it call the
target of the jobs, and kills the launcher of that stack as well. A stack that already runs gets no jobs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import redis.asyncio

from artiway.tasks import catalogue
from local import audit, photos, promises
from local.chaos_jobs import Jobs, Target
from local.emulator import client
from local.processes import identity
from local.servers import free_port
from local.shop import ENDED, Person, Platform, Refused, running_facts
from local.standby import Standby, held
from local.supervisor import supervised, until_interrupted
from local.weights import OFF

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 120
RETRY_SECONDS = 180
PICTURE_SIDE = 160
GRANT_POINTS = 10_000
WORKERS_KILLED = 0.3
WORKERS_TERMINATED = 0.5  # the share of these that get SIGTERM before SIGKILL
DRAIN_SECONDS = 1.0
WORKER_KILL_SECONDS = 8
CALLERS_KILLED = 0.3
CALLER_KILL_SECONDS = 4
QUEUES_AWAY_SECONDS = 20
CREATE_JOBS_SECONDS = 90
FAULT_SECONDS = 12
POLL_SECONDS = 3
REPORT_SECONDS = 15
TIERS = ("vip", "free", "standard", "enterprise")
# A part of each process's command line.
ROLES = {
    "worker": "-m worker",
    "PostgreSQL": "bin/postgres",
    "Valkey": "valkey-server",
    "emulator": "ministack",
    "sandbox": "awslambdaric",
}
# Cheap tasks of each node type; one task in DAG_EVERY is a DAG.
SINGLES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("crop", {}),
    ("batch_convert", {"params": {"width": 64, "height": 64}}),
    ("style", {}),
    ("extend", {}),
    ("hd_fix", {}),
)
DAGS: tuple[tuple[str, dict[str, Any]], ...] = (("background", {"count": 2}), ("model_photo", {"count": 1}))
DAG_EVERY = 10


@dataclass
class Results:
    faults: Counter[str] = field(default_factory=Counter)
    accepted: dict[str, Person] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def report(self, line: str) -> None:
        print(f"{time.monotonic() - self.began:6.1f} s  {line}", flush=True)

    def check(self, is_right: bool, violation: str) -> None:
        if not is_right:
            self.violations.append(violation)


class Launcher:
    """A stack that already runs, or one that this run starts and may kill."""

    def __init__(self, home: Path, interrupted: threading.Event) -> None:
        self.facts: dict[str, Any] = running_facts(home) or {}
        self.is_own = not self.facts
        self.home = home / "chaos" if self.is_own else home
        self._port, self.target_port = free_port(), free_port()
        self._interrupted = interrupted
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if not self.is_own:
            return
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "stack.json").unlink(missing_ok=True)  # a killed launcher leaves its file behind
        targets = f"127.0.0.1:{self.target_port}"
        # On two cores a network needs longer than a worker lives here, so the engines are those without one.
        settings = {
            "ARTIWAY_WEIGHTS": os.environ.get("ARTIWAY_WEIGHTS", OFF),
            "ARTIWAY_HOME": str(self.home),
            "ARTIWAY_PORT": str(self._port),
            "ARTIWAY_ALLOWED_TARGETS": targets,
        }
        with (self.home / "launcher.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "local"],
                cwd=ROOT,
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not (self.home / "stack.json").exists():
            if self._interrupted.is_set():
                raise KeyboardInterrupt
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the stack did not start: see {self.home / 'launcher.log'}")
            time.sleep(0.2)
        self.facts = running_facts(self.home) or {}

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()

    def pids(self, role: str, function: str = "") -> list[int]:
        """The running processes of the stack in this role; sandboxes of one function, if it is named."""
        found = []
        for file in (self.home / "processes").iterdir():
            with contextlib.suppress(OSError):
                pid, known = int(file.name), file.read_text()
                is_ours = known and identity(pid) == known and ROLES[role] in _command(pid)
                if is_ours and (not function or Path(f"/proc/{pid}/cwd").readlink().name == function):
                    found.append(pid)
        return sorted(found)

    @property
    def pid(self) -> int:
        """The process that watches the servers, by its lock file."""
        return int((self.home / "lock").read_text().split()[1].rstrip(","))


def _command(pid: int) -> str:
    file = Path(f"/proc/{pid}/cmdline")
    with contextlib.suppress(OSError):
        return file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    found = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout


class Chaos:
    def __init__(self, launcher: Launcher, platform: Platform, results: Results, chance: random.Random) -> None:
        self._launcher, self._platform, self._results, self._chance = launcher, platform, results, chance

    async def cause_faults(self) -> None:
        """Cause each fault in turn while tasks and jobs run: each once, a flush of Redis twice."""
        faults: list[Callable[[], Awaitable[None]]] = [
            self._flush,
            lambda: self._kill("sandbox"),
            lambda: self._kill("Valkey"),
            lambda: self._kill("PostgreSQL"),
            self._hold_queues,
            self._replace_postgres,
            lambda: self._kill("emulator"),
            self._flush,
        ]
        if self._launcher.is_own:
            faults.append(self._kill_launcher)
        for fault in faults:
            await asyncio.sleep(FAULT_SECONDS)
            await self._wait_until_healthy()
            await fault()
        await self._wait_until_healthy()

    async def kill_workers(self) -> None:
        """Kill workers until cancelled: during the submissions, during the faults, and while the queue drains."""
        while True:
            await asyncio.sleep(WORKER_KILL_SECONDS)
            workers = self._launcher.pids("worker")
            chosen = self._chance.sample(workers, k=min(len(workers), round(WORKERS_KILLED * len(workers)) or 1))
            await asyncio.gather(*(self._kill_worker(pid) for pid in chosen))

    async def kill_callers(self) -> None:
        """Kill callers of jobs until cancelled, with the calls that they are making. Each dies by chance: where one
        alone is running, killing it each time would let no call end.
        """
        while True:
            await asyncio.sleep(CALLER_KILL_SECONDS)
            for pid in self._launcher.pids("sandbox", "caller"):
                if self._chance.random() < CALLERS_KILLED:
                    _send(pid)
                    self._results.faults["caller killed"] += 1

    async def _hold_queues(self) -> None:
        (pid,) = self._launcher.pids("emulator")
        self._results.report(f"emulator: no answer for {QUEUES_AWAY_SECONDS} s")
        with held(pid):
            await asyncio.sleep(QUEUES_AWAY_SECONDS)
        self._results.faults["emulator held"] += 1

    async def _replace_postgres(self) -> None:
        """The primary is lost with its folder, and its synchronous standby takes its place and its port."""
        standby = Standby(self._launcher.home, self._platform.facts["databaseUrl"])
        try:
            await asyncio.to_thread(standby.start)
            (primary,) = self._launcher.pids("PostgreSQL")
            await asyncio.to_thread(standby.take_over, primary, self._launcher.pid)
        finally:
            await asyncio.to_thread(standby.stop)
        self._results.faults["PostgreSQL replaced by its standby"] += 1
        self._results.report("PostgreSQL: kill -9, folder deleted, standby promoted in its place")

    async def _kill_worker(self, pid: int) -> None:
        """Kill a worker at once, or send SIGTERM first and kill it while it drains."""
        if self._chance.random() < WORKERS_TERMINATED:
            _send(pid, signal.SIGTERM)
            await asyncio.sleep(self._chance.uniform(0, DRAIN_SECONDS))
            if pid not in self._launcher.pids("worker"):
                self._results.faults["worker terminated, ended in time"] += 1
                return
            self._results.faults["worker terminated, killed while draining"] += 1
        else:
            self._results.faults["worker killed"] += 1
        _send(pid)

    async def _kill(self, role: str) -> None:
        pids = self._launcher.pids(role)
        self._results.check(bool(pids), f"no {role} process was found to kill")
        for pid in pids:
            _send(pid)
        self._results.faults[f"{role} killed"] += len(pids)
        self._results.report(f"{role}: kill -9 of {len(pids)}")

    async def _flush(self) -> None:
        client = redis.asyncio.Redis.from_url(self._platform.facts["redisUrl"])
        try:
            await client.flushall()
        finally:
            await client.aclose()
        self._results.faults["Redis flushed"] += 1
        self._results.report("Redis: flushed")

    async def _kill_launcher(self) -> None:
        self._results.report("launcher: kill -9, then a new start")
        self._launcher.kill()
        await asyncio.to_thread(self._launcher.start)
        self._platform.facts = self._launcher.facts
        self._results.faults["launcher killed"] += 1
        self._results.report("launcher: running again")

    async def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(Exception):
                if (await self._platform.call("GET", "/health"))["status"] == "ok":
                    return
            await asyncio.sleep(1)
        self._results.violations.append(f"the platform was not healthy again after {START_SECONDS} s")


def _send(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


async def _submit_all(people: list[Person], inputs: Mapping[str, str], tasks: int, results: Results) -> None:
    """Each shop submits its tasks, each under its own idempotency key: a retry must not create a second task."""

    async def submit(index: int, person: Person) -> None:
        for number in range(index, tasks, len(people)):
            kinds = DAGS if number % DAG_EVERY == index % DAG_EVERY and number // len(people) % 3 == 0 else SINGLES
            tool, more = kinds[number // len(people) % len(kinds)]
            product = "product_1" if tool.startswith("batch") else "product"
            body = {"tool": tool, "inputs": {product: inputs[person.user_id]}, **more}
            answer = await person.call("POST", "/tasks", body, key=uuid4().hex)
            results.accepted[answer["taskId"]] = person
            await asyncio.sleep(2)

    await asyncio.gather(*(submit(index, person) for index, person in enumerate(people)))
    results.report(f"all {len(results.accepted)} tasks accepted")


async def _statuses(people: list[Person]) -> list[dict[str, Any]]:
    return [task for person in people for task in await person.all_of("/tasks")]


async def _until_ended(people: list[Person], results: Results, *, deadline: float) -> list[dict[str, Any]]:
    reported, reported_at = -1, 0.0
    while True:
        tasks = await _statuses(people)
        unfinished = [task for task in tasks if task["status"] not in ENDED]
        if len(unfinished) != reported and (not unfinished or time.monotonic() - reported_at > REPORT_SECONDS):
            reported, reported_at = len(unfinished), time.monotonic()
            results.report(f"{reported} of {len(tasks)} tasks have not ended")
        if not unfinished or time.monotonic() > deadline:
            return tasks
        await asyncio.sleep(POLL_SECONDS)


async def _audit(people: list[Person], tasks: list[dict[str, Any]], results: Results) -> Counter[str]:
    """Check through the API of each shop: each task is listed once and its hold ended once, for what was delivered."""
    counts: Counter[str] = Counter()
    listed = Counter(task["taskId"] for task in tasks)
    results.check(set(listed) == set(results.accepted), "accepted tasks and listed tasks differ")
    results.check(not listed or max(listed.values()) == 1, "a task is listed twice")
    for person in people:
        ledger = await person.all_of("/points/ledger")
        entries = audit.entries_by_task(ledger)
        own = [task for task in tasks if results.accepted.get(task["taskId"]) is person]
        results.check(set(entries) == {task["taskId"] for task in own}, f"{person.login} has entries of other tasks")
        for task in own:
            view = await person.task(task["taskId"])
            results.violations += audit.faults_of(view, entries.get(task["taskId"], []))
            counts[view["status"]] += 1
            counts["nodes"] += len(view["nodes"])
            counts["attempts"] += sum(node["attempt"] for node in view["nodes"])
            counts["charged points"] += view["chargedPoints"]
            counts["holds confirmed"] += sum(kind == "CONFIRM" for kind, _, _ in entries.get(task["taskId"], []))
            counts["pictures"] += await _fetch_all(person, view, results)
        points = await person.call("GET", "/points")
        charged = sum(task["chargedPoints"] for task in own)
        results.check(points == {"balance": GRANT_POINTS - charged, "frozen": 0}, f"{person.login} has {points}")
    return counts


async def _fetch_all(person: Person, view: Mapping[str, Any], results: Results) -> int:
    """The number of results that can be downloaded and are PNG files."""
    fetched = 0
    for result in view["results"]:
        try:
            is_picture = (await person.fetch(result["url"])).startswith(b"\x89PNG")
        except Refused:
            is_picture = False
        results.check(is_picture, f"{view['taskId']} has no picture at {result['name']}")
        fetched += is_picture
    return fetched


def _killed(results: Results) -> int:
    return sum(count for fault, count in results.faults.items() if fault.startswith("worker"))


def _dead_letters(aws_url: str) -> dict[str, int]:
    """Counts by queue since the last start of the emulator, which loses its queues when it stops."""
    sqs, name = client("sqs", aws_url), "ApproximateNumberOfMessages"
    urls = [url for page in sqs.get_paginator("list_queues").paginate() for url in page.get("QueueUrls", [])]
    counts = {
        url.rpartition("/")[2]: int(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])
        for url in urls
        if "DeadLetter" in url
    }
    return {queue: count for queue, count in counts.items() if count}


async def _run(launcher: Launcher, arguments: argparse.Namespace) -> int:
    results, chance = Results(), random.Random(arguments.seed)  # noqa: S311 (no secret)
    began_at = datetime.now(UTC)
    target = Target(launcher.target_port, chance)
    async with Platform.at(launcher.facts, retry_for_s=RETRY_SECONDS) as platform, target.serve():
        administrator = await platform.administrator()
        await administrator.wait_for_workers(len(catalogue.load().types))
        policy = {"weight": 1, "concurrency": 50, "queueDepth": 10_000, "ratePerSecond": 1_000, "burst": 2_000}
        policy |= {"jobConcurrency": 200, "jobPerMinute": 10_000, "jobPeriodSeconds": 1}
        people = [
            await administrator.open_shop(f"shop {n}", points=GRANT_POINTS, tier=TIERS[n % len(TIERS)], **policy)
            for n in range(arguments.tenants)
        ]
        picture = photos.shirt(photos.BLUE, side=PICTURE_SIDE)
        inputs = {person.user_id: await person.upload(picture) for person in people}
        job_count = arguments.jobs if launcher.is_own else 0
        results.report(f"{len(people)} shops are open; {arguments.tasks} tasks and {job_count} jobs follow")

        chaos, jobs = Chaos(launcher, platform, results, chance), Jobs(people, target, results.report)
        killing = asyncio.gather(chaos.kill_workers(), chaos.kill_callers())
        deadline = results.began + arguments.minutes * 60
        try:
            await asyncio.gather(
                _submit_all(people, inputs, arguments.tasks, results),
                jobs.create(job_count, over_s=CREATE_JOBS_SECONDS),
                chaos.cause_faults(),
            )
            killed_before = _killed(results)
            tasks = await _until_ended(people, results, deadline=deadline)
            await jobs.until_ended(deadline=deadline)
        finally:
            killing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await killing
        counts = await _audit(people, tasks, results)
        job_counts, job_faults = await jobs.audit()
        results.violations += job_faults
        health = await administrator.call("GET", "/ops/invariants?full=true")
        for check in health["checks"]:
            results.check(check["ok"], f"invariant {check['name']}: {check['violations'][:3]}")
        dead_letters = await asyncio.to_thread(_dead_letters, launcher.facts["awsUrl"])
        kept = promises.kept(launcher.facts["databaseUrl"], since=began_at)
    rows = {
        "tasks accepted": len(results.accepted),
        **{f"tasks {status}": counts[status] for status in sorted(ENDED)},
        "nodes": counts["nodes"],
        "attempts": counts["attempts"],
        "pictures delivered": counts["pictures"],
        "points charged": counts["charged points"],
        "holds confirmed": counts["holds confirmed"],
        **job_counts,
        **dict(sorted(results.faults.items())),
        "of these workers, while the queue drained": _killed(results) - killed_before,
        "requests retried by clients": platform.retries,
        **{f"dead letters in {queue}": count for queue, count in dead_letters.items()},
        **({} if kept is None else {"actual / promised, median": f"{kept.median:.2f}"}),
        **({} if kept is None else {"its quartiles": f"{kept.low:.2f} {kept.high:.2f}"}),
        "invariants checked": len(health["checks"]),
        "violations": len(results.violations),
        "seconds": round(time.monotonic() - results.began),
    }
    print()
    for name, value in rows.items():
        print(f"  {name:50} {value:>9}")
    for violation in results.violations:
        print(f"VIOLATION  {violation}", file=sys.stderr)
    return 1 if results.violations else 0


def main(interrupted: threading.Event) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m local.chaos", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--tenants", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=20, help="limit until every task and run must have ended")
    parser.add_argument("--seed", type=int, default=1, help="seed of the choice of workers to kill")
    arguments = parser.parse_args()
    launcher = Launcher(Path(os.environ.get("ARTIWAY_HOME", ".artiway")).resolve(), interrupted)
    try:
        launcher.start()
        return asyncio.run(until_interrupted(_run(launcher, arguments), interrupted))
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 1
    finally:
        launcher.stop()


if __name__ == "__main__":
    sys.exit(supervised(main))
