"""`make chaos`: many tasks while workers, servers and the launcher are killed with -9. Then all books must be right.

    python -m local.chaos [--tasks 200] [--tenants 10] [--minutes 20] [--seed 1]

Plays on the stack that runs in ARTIWAY_HOME; if none does, on one of its own in ARTIWAY_HOME/chaos, whose launcher
is killed as well.
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
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import redis.asyncio

from artiway.tasks import catalogue
from local import audit, photos
from local.emulator import client
from local.processes import identity
from local.servers import free_port
from local.shop import ENDED, Person, Platform, Refused, running_facts

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 120
PATIENCE_SECONDS = 180
PICTURE_SIDE = 160
GRANT_POINTS = 10_000
WORKERS_KILLED = 0.3
WORKERS_TOLD = 0.5  # of those, how many are told to leave before they are killed
DRAIN_SECONDS = 1.0
WORKER_KILL_SECONDS = 8
FAULT_SECONDS = 12
LOOK_SECONDS = 3
TELL_SECONDS = 15
TIERS = ("vip", "free", "standard", "enterprise")
# What a process's command line says of it.
ROLES = {
    "worker": "-m worker",
    "PostgreSQL": "bin/postgres",
    "Valkey": "valkey-server",
    "emulator": "ministack",
    "sandbox": "awslambdaric",
}
# Cheap ones of each node type, and a DAG now and then.
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
class Figures:
    faults: Counter[str] = field(default_factory=Counter)
    accepted: dict[str, Person] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def say(self, line: str) -> None:
        print(f"{time.monotonic() - self.began:6.1f} s  {line}", flush=True)

    def check(self, is_so: bool, otherwise: str) -> None:
        if not is_so:
            self.violations.append(otherwise)


class Launcher:
    """The stack: somebody else's, or a child of ours that we may kill and start again."""

    def __init__(self, home: Path) -> None:
        self.facts: dict[str, Any] = running_facts(home) or {}
        self.is_ours = not self.facts
        self.home = home / "chaos" if self.is_ours else home
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if not self.is_ours:
            return
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "stack.json").unlink(missing_ok=True)  # of a launcher that was killed
        settings = {"ARTIWAY_HOME": str(self.home), "ARTIWAY_PORT": str(self._port)}
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

    def pids(self, role: str) -> list[int]:
        """Processes that the stack started and still has."""
        found = []
        for file in (self.home / "processes").iterdir():
            with contextlib.suppress(FileNotFoundError):
                pid, known = int(file.name), file.read_text()
                if known and identity(pid) == known and ROLES[role] in _command(pid):
                    found.append(pid)
        return sorted(found)


def _command(pid: int) -> str:
    file = Path(f"/proc/{pid}/cmdline")
    with contextlib.suppress(OSError):
        return file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    found = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout


class Chaos:
    def __init__(self, launcher: Launcher, platform: Platform, figures: Figures, chance: random.Random) -> None:
        self._launcher, self._platform, self._figures, self._chance = launcher, platform, figures, chance

    async def break_everything(self) -> None:
        """Each fault once, Redis emptied twice, one after the other while work goes on."""
        faults: list[Callable[[], Awaitable[None]]] = [
            self._flush,
            lambda: self._kill("sandbox"),
            lambda: self._kill("Valkey"),
            lambda: self._kill("PostgreSQL"),
            lambda: self._kill("emulator"),
            self._flush,
        ]
        if self._launcher.is_ours:
            faults.append(self._kill_launcher)
        for fault in faults:
            await asyncio.sleep(FAULT_SECONDS)
            await self._healthy()
            await fault()
        await self._healthy()

    async def kill_workers(self) -> None:
        """Until somebody stops us: while tasks come in, while everything breaks, and while the rest is worked off."""
        while True:
            await asyncio.sleep(WORKER_KILL_SECONDS)
            workers = self._launcher.pids("worker")
            chosen = self._chance.sample(workers, k=min(len(workers), round(WORKERS_KILLED * len(workers)) or 1))
            await asyncio.gather(*(self._kill_worker(pid) for pid in chosen))

    async def _kill_worker(self, pid: int) -> None:
        """At once, or told to leave first and killed while it hands back what it holds."""
        if self._chance.random() < WORKERS_TOLD:
            _end(pid, signal.SIGTERM)
            await asyncio.sleep(self._chance.uniform(0, DRAIN_SECONDS))
            if pid not in self._launcher.pids("worker"):
                self._figures.faults["worker told to leave, gone in time"] += 1
                return
            self._figures.faults["worker told to leave, killed meanwhile"] += 1
        else:
            self._figures.faults["worker killed"] += 1
        _end(pid)

    async def _kill(self, role: str) -> None:
        pids = self._launcher.pids(role)
        self._figures.check(bool(pids), f"no {role} process was found to kill")
        for pid in pids:
            _end(pid)
        self._figures.faults[f"{role} killed"] += len(pids)
        self._figures.say(f"{role}: kill -9 of {len(pids)}")

    async def _flush(self) -> None:
        client = redis.asyncio.Redis.from_url(self._platform.facts["redisUrl"])
        try:
            await client.flushall()
        finally:
            await client.aclose()
        self._figures.faults["Redis flushed"] += 1
        self._figures.say("Redis: flushed")

    async def _kill_launcher(self) -> None:
        self._figures.say("launcher: kill -9, then everything is started again")
        self._launcher.kill()
        await asyncio.to_thread(self._launcher.start)
        self._platform.facts = self._launcher.facts
        self._figures.faults["launcher killed"] += 1
        self._figures.say("launcher: runs again")

    async def _healthy(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(Exception):
                if (await self._platform.call("GET", "/health"))["status"] == "ok":
                    return
            await asyncio.sleep(1)
        self._figures.violations.append(f"the platform was not healthy again after {START_SECONDS} s")


def _end(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


async def _submit_all(people: list[Person], inputs: Mapping[str, str], tasks: int, figures: Figures) -> None:
    """Every shop on its own, each task under its own key: asking again must not make a second one."""

    async def shop(place: int, person: Person) -> None:
        for number in range(place, tasks, len(people)):
            kinds = DAGS if number % DAG_EVERY == place % DAG_EVERY and number // len(people) % 3 == 0 else SINGLES
            tool, more = kinds[number // len(people) % len(kinds)]
            product = "product_1" if tool.startswith("batch") else "product"
            body = {"tool": tool, "inputs": {product: inputs[person.user_id]}, **more}
            answer = await person.call("POST", "/tasks", body, key=uuid4().hex)
            figures.accepted[answer["taskId"]] = person
            await asyncio.sleep(2)

    await asyncio.gather(*(shop(place, person) for place, person in enumerate(people)))
    figures.say(f"all {len(figures.accepted)} tasks accepted")


async def _statuses(people: list[Person]) -> list[dict[str, Any]]:
    return [task for person in people for task in await person.all_of("/tasks")]


async def _until_over(people: list[Person], figures: Figures, *, deadline: float) -> list[dict[str, Any]]:
    told, told_at = -1, 0.0
    while True:
        tasks = await _statuses(people)
        open_ones = [task for task in tasks if task["status"] not in ENDED]
        if len(open_ones) != told and (not open_ones or time.monotonic() - told_at > TELL_SECONDS):
            told, told_at = len(open_ones), time.monotonic()
            figures.say(f"{told} of {len(tasks)} tasks are not over yet")
        if not open_ones or time.monotonic() > deadline:
            return tasks
        await asyncio.sleep(LOOK_SECONDS)


async def _audit(people: list[Person], tasks: list[dict[str, Any]], figures: Figures) -> Counter[str]:
    """What each shop can check for itself: every task once, each task's hold ended once and for what was delivered."""
    counts: Counter[str] = Counter()
    listed = Counter(task["taskId"] for task in tasks)
    figures.check(set(listed) == set(figures.accepted), "accepted tasks and listed tasks differ")
    figures.check(not listed or max(listed.values()) == 1, "a task is listed twice")
    for person in people:
        ledger = await person.all_of("/points/ledger")
        entries = audit.entries_by_task(ledger)
        own = [task for task in tasks if figures.accepted.get(task["taskId"]) is person]
        figures.check(set(entries) == {task["taskId"] for task in own}, f"{person.login} has entries of other tasks")
        for task in own:
            view = await person.task(task["taskId"])
            figures.violations += audit.faults_of(view, entries.get(task["taskId"], []))
            counts[view["status"]] += 1
            counts["nodes"] += len(view["nodes"])
            counts["attempts"] += sum(node["attempt"] for node in view["nodes"])
            counts["charged points"] += view["chargedPoints"]
            counts["holds confirmed"] += sum(kind == "CONFIRM" for kind, _, _ in entries.get(task["taskId"], []))
            counts["pictures"] += await _fetch_all(person, view, figures)
        points = await person.call("GET", "/points")
        charged = sum(task["chargedPoints"] for task in own)
        figures.check(points == {"balance": GRANT_POINTS - charged, "frozen": 0}, f"{person.login} has {points}")
    return counts


async def _fetch_all(person: Person, view: Mapping[str, Any], figures: Figures) -> int:
    """A picture counts as delivered when it can be fetched and is one."""
    fetched = 0
    for result in view["results"]:
        try:
            is_picture = (await person.fetch(result["url"])).startswith(b"\x89PNG")
        except Refused:
            is_picture = False
        figures.check(is_picture, f"{view['taskId']} has no picture behind {result['name']}")
        fetched += is_picture
    return fetched


def _killed(figures: Figures) -> int:
    return sum(count for fault, count in figures.faults.items() if fault.startswith("worker"))


def _dead_letters(aws_url: str) -> dict[str, int]:
    """By queue, since the emulator was last started: it forgets its queues."""
    sqs, name = client("sqs", aws_url), "ApproximateNumberOfMessages"
    urls = [url for page in sqs.get_paginator("list_queues").paginate() for url in page.get("QueueUrls", [])]
    counts = {
        url.rpartition("/")[2]: int(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])
        for url in urls
        if "DeadLetter" in url
    }
    return {queue: count for queue, count in counts.items() if count}


async def _play(launcher: Launcher, arguments: argparse.Namespace) -> int:
    figures, chance = Figures(), random.Random(arguments.seed)  # noqa: S311 (no secret)
    async with Platform.at(launcher.facts, patience_s=PATIENCE_SECONDS) as platform:
        administrator = await platform.administrator()
        await administrator.wait_for_workers(len(catalogue.load().types))
        policy = {"weight": 1, "concurrency": 50, "queueDepth": 10_000, "ratePerSecond": 1_000, "burst": 2_000}
        people = [
            await administrator.open_shop(f"shop {n}", points=GRANT_POINTS, tier=TIERS[n % len(TIERS)], **policy)
            for n in range(arguments.tenants)
        ]
        picture = photos.shirt(photos.BLUE, side=PICTURE_SIDE)
        inputs = {person.user_id: await person.upload(picture) for person in people}
        figures.say(f"{len(people)} shops are open; {arguments.tasks} tasks follow")

        chaos = Chaos(launcher, platform, figures, chance)
        killing = asyncio.create_task(chaos.kill_workers())
        try:
            await asyncio.gather(_submit_all(people, inputs, arguments.tasks, figures), chaos.break_everything())
            killed_before = _killed(figures)
            tasks = await _until_over(people, figures, deadline=figures.began + arguments.minutes * 60)
        finally:
            killing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await killing
        counts = await _audit(people, tasks, figures)
        health = await administrator.call("GET", "/ops/invariants")
        for check in health["checks"]:
            figures.check(check["ok"], f"invariant {check['name']}: {check['violations'][:3]}")
        letters = await asyncio.to_thread(_dead_letters, launcher.facts["awsUrl"])
    rows = {
        "tasks accepted": len(figures.accepted),
        **{f"tasks {status}": counts[status] for status in sorted(ENDED)},
        "nodes": counts["nodes"],
        "attempts": counts["attempts"],
        "pictures delivered": counts["pictures"],
        "points charged": counts["charged points"],
        "holds confirmed": counts["holds confirmed"],
        **dict(sorted(figures.faults.items())),
        "of these workers, while the rest was worked off": _killed(figures) - killed_before,
        "requests repeated by clients": platform.asked_again,
        **{f"dead letters in {queue}": count for queue, count in letters.items()},
        "invariants checked": len(health["checks"]),
        "violations": len(figures.violations),
        "seconds": round(time.monotonic() - figures.began),
    }
    print()
    for name, value in rows.items():
        print(f"  {name:50} {value:>8}")
    for violation in figures.violations:
        print(f"VIOLATION  {violation}", file=sys.stderr)
    return 1 if figures.violations else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m local.chaos", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--tenants", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=20, help="until every task must be over")
    parser.add_argument("--seed", type=int, default=1, help="which workers are killed")
    arguments = parser.parse_args()
    launcher = Launcher(Path(os.environ.get("ARTIWAY_HOME", ".artiway")).resolve())
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        launcher.start()
        return asyncio.run(_play(launcher, arguments))
    except KeyboardInterrupt:
        return 1
    finally:
        launcher.stop()


if __name__ == "__main__":
    sys.exit(main())
