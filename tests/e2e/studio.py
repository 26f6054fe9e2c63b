"""A stack with real workers, used through the API as a shop owner."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Self

from artiway.tasks import catalogue
from local.servers import free_port
from local.shop import ENDED, Person, Platform
from local.stack import Stack
from local.text_model import PICTURES, TextModel
from local.workers import Workers

POINTS = 1_000
# The only private target that the functions of this stack may call.
RECEIVER_PORT = free_port()

Scenario = Callable[[Person], Coroutine[Any, Any, None]]


class Studio:
    """A stack with workers; each scenario runs as a new shop."""

    def __init__(self, stack: Stack, workers: Workers) -> None:
        self.stack, self.workers = stack, workers

    @classmethod
    @contextlib.contextmanager
    def opened(cls, home: Path) -> Iterator[Self]:
        workers = Workers(home, has_networks=False)
        parameters = {"RedeliverySeconds": "5", "AllowedTargets": f"127.0.0.1:{RECEIVER_PORT}"}
        writer, reader = TextModel(home), TextModel(home, PICTURES)
        with Stack(
            home=home,
            port=free_port(),
            parameters=parameters,
            services=[workers],
            text_model=writer,
            picture_model=reader,
        ) as stack:
            asyncio.run(workers_ready(stack))
            yield cls(stack, workers)

    def run(self, scenario: Scenario) -> None:
        """Run a scenario as a new shop, so that tests do not share points."""

        async def run_as_shop() -> None:
            async with Platform.at(self.stack.facts, retry_for_s=20) as platform:
                administrator = await platform.administrator()
                await scenario(await administrator.open_shop("shop", points=POINTS, tier="vip"))
                health = await administrator.call("GET", "/ops/invariants?full=true")
                assert health["ok"], [check for check in health["checks"] if not check["ok"]]

        asyncio.run(run_as_shop())

    def kill_worker_of(self, node_type: str) -> None:
        os.kill(self.workers.pids()[list(catalogue.load().types).index(node_type)], signal.SIGKILL)

    def use_engine(self, node_type: str, engine: str) -> None:
        """Restart the worker of a type with another engine."""
        self.workers._environment["ARTIWAY_ENGINES"] = json.dumps({node_type: engine})
        self.kill_worker_of(node_type)

    def kill_sandboxes_of(self, function: str) -> int:
        """Kill the processes whose working directory is the function's folder."""
        killed = 0
        for file in (self.stack.home / "processes").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the process ended meanwhile
                if Path(f"/proc/{file.name}/cwd").readlink().name == function:
                    os.kill(int(file.name), signal.SIGKILL)
                    killed += 1
        return killed


async def workers_ready(stack: Stack) -> None:
    async with Platform.at(stack.facts, retry_for_s=20) as platform:
        await (await platform.administrator()).wait_for_workers(len(catalogue.load().types) + 1)


async def until(person: Person, task_id: str, is_met: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    async with asyncio.timeout(120):
        while not is_met(view := await person.task(task_id)):  # noqa: ASYNC110 (the platform changes it)
            await asyncio.sleep(0.1)
        return view


async def ended(person: Person, task_id: str) -> dict[str, Any]:
    return await until(person, task_id, lambda view: view["status"] in ENDED)


async def ledger(person: Person) -> list[tuple[str, int, int]]:
    entries = await person.all_of("/points/ledger")
    return [(entry["kind"], entry["balanceDelta"], entry["frozenDelta"]) for entry in reversed(entries)]
