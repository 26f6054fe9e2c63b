"""Scheduled jobs of a chaos run: their target, their definitions, and the audit of their runs."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from aiohttp import web

from local.audit import ReceivedCall, WantedRuns, run_faults
from local.shop import Person, Refused

RUN_ENDED = frozenset({"SUCCESS", "FAILED", "TERMINATED"})
# Two jobs of three run once, at a second of the faults; the third runs each minute until they are over.
CRON_EVERY = 3
AHEAD_SECONDS = 20
MINUTES = 4
POLL_SECONDS = 3
REPORT_SECONDS = 15
# A killed caller costs an attempt only after its lease. The target never fails, so every run must succeed.
ATTEMPTS = 10
TIMEOUT_SECONDS = 10
SLOWEST_SECONDS = 1.0


class Target:
    """The jobs' target: it takes its time, answers 200 and notes the key of each call. Each path is a job's."""

    def __init__(self, port: int, chance: random.Random) -> None:
        self.port, self._chance = port, chance
        self.calls: dict[str, list[ReceivedCall]] = defaultdict(list)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        application = web.Application()
        application.router.add_post("/{job}", self._answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        try:
            yield
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        call = ReceivedCall(request.headers["Idempotency-Key"], request.headers["webhook-id"])
        self.calls[request.match_info["job"]].append(call)
        await asyncio.sleep(self._chance.uniform(0, SLOWEST_SECONDS))
        return web.Response(text="ok")

    def url(self, job: str) -> str:
        return f"http://127.0.0.1:{self.port}/{job}"


@dataclass
class Jobs:
    """The jobs that the platform accepted, and what it owes them."""

    people: list[Person]
    target: Target
    report: Callable[[str], None]
    accepted: dict[str, tuple[Person, str, WantedRuns]] = field(default_factory=dict)

    async def create(self, count: int, *, over_s: float) -> None:
        """Each shop stores its jobs in this time, while faults happen: a retry must not make a second one."""

        async def create(index: int, person: Person) -> None:
            for number in range(index, count, len(self.people)):
                await self._create(person, number)
                await asyncio.sleep(over_s * len(self.people) / count)

        await asyncio.gather(*(create(index, person) for index, person in enumerate(self.people)))
        self.report(f"all {len(self.accepted)} jobs accepted")

    async def _create(self, person: Person, number: int) -> None:
        name = f"job-{number}"
        while True:
            now = datetime.now(UTC).replace(microsecond=0)
            schedule, times = _cron(now, number) if number % CRON_EVERY == 0 else _once(now, number)
            body = {
                "name": name,
                **schedule,
                "task": {"type": "HTTP", "url": self.target.url(name)},
                "retryPolicy": {"maxAttempts": ATTEMPTS, "baseDelayMs": 500, "maxDelayMs": 5_000},
                "misfirePolicy": "FIRE_ALL",
                "catchupWindowSeconds": 3_600,
                "timeoutSeconds": TIMEOUT_SECONDS,
                "concurrencyLimit": 20,
            }
            try:
                made = await person.call("POST", "/jobs", body, key=uuid4().hex)
            except Refused as error:
                if error.status != 422 or error.body["code"] != "JOB_422_SCHEDULE":
                    raise
                continue  # its time passed while the platform was away
            created_at = datetime.fromisoformat(made["createdAt"])
            wanted = WantedRuns(made["jobId"], frozenset(at for at in times if at > created_at))
            self.accepted[made["jobId"]] = person, name, wanted
            return

    async def until_ended(self, *, deadline: float) -> None:
        """Until every run that is owed has ended."""
        reported_at = 0.0
        last = max((time for _, _, wanted in self.accepted.values() for time in wanted.times), default=None)
        owed = sum(len(wanted.times) for _, _, wanted in self.accepted.values())
        while time.monotonic() < deadline:
            runs = [run for person in self.people for run in await person.all_of("/runs")]
            open_runs = owed - sum(run["state"] in RUN_ENDED for run in runs)
            if open_runs <= 0 or time.monotonic() - reported_at > REPORT_SECONDS:
                reported_at = time.monotonic()
                self.report(f"{open_runs} of {owed} runs have not ended")
            if open_runs <= 0 and (last is None or datetime.now(UTC) > last):
                return
            await asyncio.sleep(POLL_SECONDS)

    async def audit(self) -> tuple[Counter[str], list[str]]:
        """What became of each job, by the API of its shop and by what its target received."""
        counts, faults = Counter[str](), list[str]()
        for person in self.people:
            runs = defaultdict[str, list[dict[str, Any]]](list)
            for run in await person.all_of("/runs"):
                runs[run["jobId"]].append(run)
            listed = Counter(job["jobId"] for job in await person.all_of("/jobs"))
            own = {job_id for job_id, (owner, _, _) in self.accepted.items() if owner is person}
            if set(listed) != own or any(count > 1 for count in listed.values()):
                faults.append(f"{person.login} has {len(listed)} jobs, not the {len(own)} that were accepted")
            for job_id in own:
                _, name, wanted = self.accepted[job_id]
                calls = self.target.calls[name]
                faults += run_faults(wanted, runs[job_id], calls)
                counts.update(_counts(runs[job_id], calls))
        counts["jobs accepted"] = len(self.accepted)
        return counts, faults


def _counts(runs: list[dict[str, Any]], calls: list[ReceivedCall]) -> dict[str, int]:
    keys = len({call.key for call in calls})
    return {
        "runs": len(runs),
        "attempts of runs": sum(run["attempt"] for run in runs),
        "keys at the target": keys,
        "calls that repeated a key": len(calls) - keys,
    }


def _once(now: datetime, number: int) -> tuple[dict[str, Any], list[datetime]]:
    at = now + timedelta(seconds=AHEAD_SECONDS + number % 60)
    return {"schedule": {"type": "ONCE", "at": at.isoformat()}}, [at]


def _cron(now: datetime, number: int) -> tuple[dict[str, Any], list[datetime]]:
    """Each minute at a second of its own. The list is made by arithmetic, not by cron."""
    second = number % 60
    first = now.replace(second=second) + timedelta(minutes=1)
    bounds = {"endsAt": (first + timedelta(minutes=MINUTES, seconds=-1)).isoformat()}
    times = [now.replace(second=second), *(first + timedelta(minutes=n) for n in range(MINUTES))]
    return {"schedule": {"type": "CRON", "expr": f"{second} * * * * ?"}, **bounds}, times
