"""Streams of texts through the whole stack: cut readers, a killed worker, a flushed Redis, a late reader."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import redis

from local.shop import Person, Platform
from local.stack import Stack
from local.text_standin import words

TOKENS = 100
LONG_TOKENS = 240
READERS = 100
# Streams of a user that are open at once (docs/limits.md). A function does not see that its reader has left.
PLACES = 5
TERMINAL = {"done", "error", "cancelled"}


class Reader:
    """Follows a text. `cut` says after each event whether the connection is lost."""

    def __init__(self, person: Person, generation_id: str) -> None:
        self._person, self._generation_id = person, generation_id
        self.last_id, self.text, self.answers = "", "", 0
        self.names: list[str] = []
        self.end: dict[str, Any] = {}

    async def events(self) -> AsyncIterator[str]:
        """The names of the events of one connection."""
        url = f"{self._person.platform.facts['apiUrl']}/generations/{self._generation_id}/events"
        headers = {"authorization": f"Bearer {self._person.token}"}
        headers |= {"last-event-id": self.last_id} if self.last_id else {}
        # A stream lives for a minute, longer than a request may take.
        limit = aiohttp.ClientTimeout(total=None, sock_read=40)
        async with self._person.platform.session.get(url, headers=headers, timeout=limit) as answer:
            assert (answer.status, answer.content_type) == (200, "text/event-stream"), await answer.text()
            self.answers += 1
            while block := await answer.content.readuntil(b"\n\n"):
                if not block.startswith(b"id:"):
                    continue
                fields = dict(line.split(": ", 1) for line in block.decode().splitlines() if line)
                self._receive(fields["id"], fields["event"], json.loads(fields["data"]))
                yield fields["event"]

    async def follow(self, cut: Callable[[], bool] = lambda: False) -> None:
        async with asyncio.timeout(150):
            while not self.end:
                async for _ in self.events():
                    if self.end or cut():
                        break

    def _receive(self, entry_id: str, name: str, body: dict[str, Any]) -> None:
        self.last_id = entry_id
        self.names.append(name)
        if name == "restart":
            self.text = ""
        if name in ("token", "token_batch"):
            assert body["offset"] == len(self.text)
            self.text += body["text"]
        if name in TERMINAL:
            self.end = body
            assert body["sha256"] == sha256(self.text.encode()).hexdigest()


def run(stack: Stack, scenario: Callable[[Person], Coroutine[Any, Any, None]]) -> None:
    async def run_as_shop() -> None:
        async with Platform.at(stack.facts, retry_for_s=20) as platform:
            administrator = await platform.administrator()
            await scenario(await administrator.open_shop("texts", points=1_000, tier="vip", ratePerSecond=1_000))

    asyncio.run(run_as_shop())


async def submitted(person: Person, *, per_second: int = 20, tokens: int = TOKENS) -> str:
    asked = {
        "service": "copywriting",
        "input": {"text": f"a dress scene=steady-{per_second}"},
        "maxTokens": tokens,
    }
    return str((await person.call("POST", "/generations", asked, key=uuid4().hex))["generationId"])


async def mid_text(reader: Reader) -> None:
    """Until some of the text has arrived."""
    async with asyncio.timeout(120):
        async for _ in reader.events():
            if len(reader.text) > 40:
                return


def kill_sandboxes_of(stack: Stack, function: str) -> int:
    killed = 0
    for file in (stack.home / "processes").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{file.name}/cwd").readlink().name == function:
                os.kill(int(file.name), signal.SIGKILL)
                killed += 1
    return killed


def test_cut_readers_get_exactly_the_final_text(stack: Stack) -> None:
    async def scenario(person: Person) -> None:
        generation_id = await submitted(person, per_second=40, tokens=LONG_TOKENS)
        readers = [Reader(person, generation_id) for _ in range(READERS)]
        places = asyncio.Semaphore(PLACES)
        cuts = 0

        async def follow(reader: Reader, chance: random.Random) -> None:
            nonlocal cuts
            while not reader.end:
                async with places:
                    async for _ in reader.events():
                        if reader.end or chance.random() < 0.15:
                            break
                cuts += not reader.end

        async with asyncio.timeout(150):
            await asyncio.gather(*(follow(reader, random.Random(seed)) for seed, reader in enumerate(readers)))
        assert {reader.text for reader in readers} == {"".join(words(LONG_TOKENS))}
        assert cuts >= READERS // 5
        assert max(reader.names.count("token_batch") for reader in readers) >= 5

        late = Reader(person, generation_id)
        await late.follow()
        assert (late.names, late.text) == (["start", "token_batch", "done"], readers[0].text)
        generation = await person.call("GET", f"/generations/{generation_id}")
        assert (generation["status"], generation["text"]) == ("COMPLETED", late.text)

    run(stack, scenario)


def test_flushed_redis_loses_no_text(stack: Stack) -> None:
    async def scenario(person: Person) -> None:
        generation_id = await submitted(person)
        reader = Reader(person, generation_id)
        await mid_text(reader)
        with redis.Redis.from_url(person.platform.facts["redisUrl"]) as client:
            client.flushall()
        await reader.follow()
        assert reader.text == "".join(words(TOKENS))
        assert reader.names[-1] == "done"

    run(stack, scenario)


def test_killed_worker_ends_in_restart_or_error(stack: Stack) -> None:
    async def scenario(person: Person) -> None:
        administrator = await person.platform.administrator()
        await administrator.call("PUT", "/ops/settings/text.lease_s", {"value": 6})
        try:
            generation_id = await submitted(person)
            reader = Reader(person, generation_id)
            await mid_text(reader)
            assert kill_sandboxes_of(stack, "text_stream") >= 1
            await reader.follow()
        finally:
            await administrator.call("DELETE", "/ops/settings/text.lease_s")
        assert {"restart", "error"} & set(reader.names)
        generation = await person.call("GET", f"/generations/{generation_id}")
        assert generation["text"] == reader.text

    run(stack, scenario)
