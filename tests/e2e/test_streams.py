"""Streams through edge and runtime: each event arrives before the next one is made."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import aiohttp
import pytest
import redis.asyncio

from artiway.ids import from_wire
from artiway.platform.redis_keys import task_events
from local.shop import Person
from tests.e2e.studio import Studio
from tests.e2e.test_tasks import PHOTO

CHUNKS = 6


async def event_of(answer: aiohttp.ClientResponse) -> tuple[str, dict]:
    """The next event of a stream."""
    async with asyncio.timeout(60):
        while not (block := await answer.content.readuntil(b"\n\n")).startswith(b"id:"):
            assert block, "the stream ended"
    fields = dict(line.split(": ", 1) for line in block.decode().splitlines() if line)
    return fields["event"], json.loads(fields["data"])


def test_each_event_arrives_before_the_next_is_made(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        facts, session = person.platform.facts, person.platform.session
        wanted = {"tool": "cutout", "inputs": {"product": await person.upload(PHOTO)}}
        lane = (await person.call("POST", "/tasks/estimate", wanted))["lane"]
        administrator = await person.platform.administrator()
        await administrator.call("POST", f"/ops/lanes/{lane}/pause")
        try:
            task = await person.call("POST", "/tasks", wanted, key=uuid4().hex)
            url = f"{facts['apiUrl']}/tasks/{task['taskId']}/events"
            stream = task_events(from_wire("task", task["taskId"]))
            async with (
                redis.asyncio.Redis.from_url(facts["redisUrl"]) as producer,
                session.get(url, headers={"authorization": f"Bearer {person.token}"}) as answer,
            ):
                assert (answer.status, answer.content_type) == (200, "text/event-stream")
                assert "Content-Length" not in answer.headers
                assert (await event_of(answer))[0] == "queued"
                for number in range(CHUNKS):
                    body = json.dumps({"progress": number})
                    await producer.xadd(stream, {"event": "progress", "body": body}, id="1-*")
                    assert await event_of(answer) == ("progress", {"progress": number})
        finally:
            await administrator.call("POST", f"/ops/lanes/{lane}/resume")

    studio.run(scenario)


@pytest.mark.parametrize(
    ("method", "authorization", "status", "code"),
    [
        ("GET", None, 401, "AUTH_401_TOKEN_INVALID"),
        ("GET", "Bearer eyJ", 401, "AUTH_401_TOKEN_INVALID"),
        ("GET", "Bearer ak_no", 401, "AUTH_401_TOKEN_INVALID"),
        ("GET", "own", 404, "TASK_404_NO_TASK"),
        ("POST", "own", 405, "REQUEST_405_METHOD"),
    ],
)
def test_refused_stream_has_status_and_code(
    studio: Studio, method: str, authorization: str | None, status: int, code: str
) -> None:
    async def scenario(person: Person) -> None:
        url = f"{person.platform.facts['apiUrl']}/tasks/task_018f3c1a7b0070008000000000000010/events"
        sent = f"Bearer {person.token}" if authorization == "own" else authorization
        headers = {"authorization": sent} if sent else {}
        async with person.platform.session.request(method, url, headers=headers) as answer:
            assert (answer.status, (await answer.json())["code"]) == (status, code)

    studio.run(scenario)
