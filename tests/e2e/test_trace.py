"""One trace id from the request through every function and the worker, to the webhook and back to the caller."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web

from artiway.ids import from_wire
from artiway.platform import tracing
from local import photos
from local.shop import Person
from tests.e2e.studio import RECEIVER_PORT, Studio, ended

# Each process on the way of a task, and the lines that it writes about it.
WAY = {
    "TasksFunction": {"task accepted", "request answered"},
    "SchedulerFunction": {"node dispatched"},
    "InternalFunction": {"node claimed"},
    "worker": {"node done"},
    "ProgressFunction": {"node completed", "task ended"},
    "SettleFunction": {"task settled"},
    "PushFunction": {"message handled"},
    "FanoutFunction": {"message handled"},
    "WebhooksFunction": {"delivery tried"},
}


def lines_of(logs: Path, trace_id: str) -> dict[str, list[dict[str, Any]]]:
    """The lines under a trace id, by process. All workers are one."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in logs.glob("*.log"):
        process = "worker" if file.stem.startswith("worker") else file.stem
        lines = [json.loads(line) for line in file.read_text().splitlines() if trace_id in line]
        found.setdefault(process, []).extend(line for line in lines if line.get("trace_id") == trace_id)
    return found


@contextlib.asynccontextmanager
async def receiver() -> AsyncIterator[list[str]]:
    """A webhook; the list has the trace id of each request."""
    seen: list[str] = []

    async def receive(request: web.Request) -> web.Response:
        seen.append(request.headers.get("X-Trace-Id", ""))
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/hook", receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", RECEIVER_PORT).start()
    try:
        yield seen
    finally:
        await runner.cleanup()


async def submitted(person: Person, body: dict[str, Any]) -> tuple[str, str]:
    """The id of the new task, and the trace id in the header of the answer."""
    url, headers = f"{person.platform.facts['apiUrl']}/tasks", {"authorization": f"Bearer {person.token}"}
    async with person.platform.session.post(url, json=body, headers=headers) as answer:
        assert answer.status == 202, await answer.text()
        return (await answer.json())["taskId"], answer.headers["x-trace-id"]


def test_one_trace_id_follows_a_task(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        input_id = await person.upload(photos.shirt(photos.BLUE, side=240))
        body = {
            "tool": "scene",
            "inputs": {"product": input_id},
            "webhookUrl": f"http://127.0.0.1:{RECEIVER_PORT}/hook",
        }
        socket_url = f"{person.platform.facts['wsUrl']}?token={person.token}"
        async with receiver() as seen, person.platform.session.ws_connect(socket_url):
            task_id, trace_id = await submitted(person, body)
            assert tracing.parse(trace_id) == trace_id
            view = await ended(person, task_id)
            assert (view["status"], view["traceId"]) == ("COMPLETED", trace_id)
            async with asyncio.timeout(60):
                while missing := missing_of(studio.stack.home / "logs", trace_id):  # noqa: ASYNC110 (files)
                    await asyncio.sleep(0.5)
            assert not missing
            assert seen == [trace_id]
        found = lines_of(studio.stack.home / "logs", trace_id)
        foreign = {line["task_id"] for lines in found.values() for line in lines if "task_id" in line} - {
            str(from_wire("task", task_id))
        }
        assert not foreign, "lines of other tasks carry the id"

    studio.run(scenario)


def missing_of(logs: Path, trace_id: str) -> dict[str, set[str]]:
    found = lines_of(logs, trace_id)
    written = {process: {line["message"] for line in found.get(process, [])} for process in WAY}
    return {process: wanted - written[process] for process, wanted in WAY.items() if wanted - written[process]}
