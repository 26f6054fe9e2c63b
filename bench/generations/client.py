"""Submits texts, reads their streams and counts the CPU of every process, in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp

from local.shop import Person, Platform

TOKENS = 100
WAIT_S = 240
UNLIMITED = aiohttp.ClientTimeout(total=None)
MODEL, SERVICE = "stamps", "copywriting"
LANE = "paid_stream"
# A word of a process's command -> its name in the report.
PARTS = {
    "bench.generations.provider": "provider",
    "postgres": "PostgreSQL",
    "valkey": "Redis",
    "redis-server": "Redis",
    "ministack": "emulator",
}


@dataclass
class Ages:
    """Milliseconds between a token at the provider and its arrival at the reader."""

    first: list[float] = field(default_factory=list)
    all: list[float] = field(default_factory=list)

    def add(self, texts: list[tuple[float, str]]) -> None:
        """Pieces of one text with their times of arrival. A token cut between two pieces arrives with the second."""
        pending, arrived = "", []
        for at, text in texts:
            *tokens, pending = (pending + text).split(" ")
            arrived += [(at - float(token)) * 1_000 for token in tokens]
        self.first.append(arrived[0])
        self.all += arrived

    def percentiles(self) -> dict[str, dict[str, float]]:
        return {"firstMs": _percentiles(self.first), "gapMs": _percentiles(self.all)}


def _percentiles(values: list[float]) -> dict[str, float]:
    if len(values) == 1:
        return dict.fromkeys(("p50", "p95", "p99"), round(values[0], 1))
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {f"p{percent}": round(cuts[percent - 1], 1) for percent in (50, 95, 99)}


async def read_directly(session: aiohttp.ClientSession, url: str, tokens: int) -> list[tuple[float, str]]:
    asked = {"model": MODEL, "messages": [], "stream": True, "max_tokens": tokens}
    texts = []
    async with session.post(f"{url}/chat/completions", json=asked) as answer:
        while (block := await answer.content.readuntil(b"\n\n")) != b"data: [DONE]\n\n":
            delta = json.loads(block.removeprefix(b"data: "))["choices"][0]["delta"]
            if delta:
                texts.append((time.monotonic(), delta["content"]))
    return texts


class Round:
    """One text for each person. The lane is paused until all readers are connected, so all texts begin together."""

    def __init__(self, administrator: Person, people: list[Person]) -> None:
        self._administrator, self._people = administrator, people
        self._few = asyncio.Semaphore(4)  # cold functions at once
        self._connected = asyncio.Barrier(len(people) + 1)

    async def run(self, root: int) -> tuple[list[list[tuple[float, str]]], Counter[str]]:
        """The texts, and the CPU seconds from the start of the lane to the last end."""
        await self._administrator.call("POST", f"/ops/lanes/{LANE}/pause")
        reading = [asyncio.create_task(self._read(person)) for person in self._people]
        await asyncio.wait_for(self._connected.wait(), WAIT_S)
        before = cpu_seconds(root)
        await self._administrator.call("POST", f"/ops/lanes/{LANE}/resume")
        texts = await asyncio.wait_for(asyncio.gather(*reading), WAIT_S)
        return texts, cpu_seconds(root) - before

    async def _read(self, person: Person) -> list[tuple[float, str]]:
        asked = {"service": SERVICE, "input": {"text": "a red cotton dress"}, "maxTokens": TOKENS}
        async with self._few:
            accepted = await person.call("POST", "/generations", asked, key=uuid4().hex)
        url = f"{person.platform.facts['apiUrl']}/generations/{accepted['generationId']}/events"
        texts: list[tuple[float, str]] = []
        last = ""
        while True:
            headers = {"authorization": f"Bearer {person.token}"} | ({"last-event-id": last} if last else {})
            async with contextlib.AsyncExitStack() as held:
                async with self._few:
                    answer = await held.enter_async_context(
                        person.platform.session.get(url, headers=headers, timeout=UNLIMITED)
                    )
                if answer.status != 200:
                    raise RuntimeError(f"{answer.status}: {await answer.text()}")
                if not last:
                    await self._connected.wait()
                while block := await answer.content.readuntil(b"\n\n"):
                    arrived = time.monotonic()
                    if not block.startswith(b"id:"):
                        continue
                    fields = dict(line.split(": ", 1) for line in block.decode().splitlines() if line)
                    last, body = fields["id"], json.loads(fields["data"])
                    if fields["event"] in ("token", "token_batch"):
                        texts.append((arrived, body["text"]))
                    if fields["event"] == "done":
                        return texts
                    if fields["event"] in ("error", "cancelled", "restart"):
                        raise RuntimeError(f"{fields['event']}: {body}")


def cpu_seconds(root: int) -> Counter[str]:
    """Of the stack's process and all that it started, by what they are: a function's name, a server, the client."""
    parents, used = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
            used[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_ours(pid: int) -> bool:
        while pid not in (0, 1, root):
            pid = parents.get(pid, 0)
        return pid == root

    found: Counter[str] = Counter()
    for pid, seconds in used.items():
        if is_ours(pid):
            found[_part(pid, root)] += seconds
    return found


@cache
def _part(pid: int, root: int) -> str:
    """What a process is. A process keeps its kind, so each is read once."""
    if pid in (root, os.getpid()):
        return "edge and Lambda server" if pid == root else "client"
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return "ended"
    for name, part in PARTS.items():
        if name in command:
            return part
    names = (one for one in variables if one.startswith(b"AWS_LAMBDA_FUNCTION_NAME="))
    return next((f"function {one.partition(b'=')[2].decode()}" for one in names), "other")


def per_1000_tokens(used: Counter[str], tokens: int) -> dict[str, float]:
    """The provider is not part of the platform, nor are the processes that measure."""
    found = {part: round(seconds / tokens * 1_000, 2) for part, seconds in used.most_common()}
    return {"all": round(sum(used.values()) / tokens * 1_000, 2), **{part: cpu for part, cpu in found.items() if cpu}}


async def measured(facts: dict[str, Any], url: str, root: int, streams: tuple[int, ...]) -> dict[str, Any]:
    async with Platform.at(facts, retry_for_s=30) as platform_:
        administrator = await platform_.administrator()
        await administrator.call("PATCH", f"/ops/lanes/{LANE}", {"parallelism": max(streams)})
        people = [await administrator.open_shop(f"bench-{n}", points=10_000, tier="vip") for n in range(max(streams))]
        found: dict[str, Any] = {}
        for count in streams:
            for _ in ("warm-up", "warm-up", "measured"):
                before, begun = cpu_seconds(root), time.monotonic()
                texts, streaming = await Round(administrator, people[:count]).run(root)
                used, lasted = cpu_seconds(root) - before, time.monotonic() - begun
            direct = await asyncio.gather(*(read_directly(platform_.session, url, TOKENS) for _ in range(count)))
            ours, peer = Ages(), Ages()
            for text in texts:
                ours.add(text)
            for text in direct:
                peer.add(text)
            found[str(count)] = {
                "ours": ours.percentiles(),
                "direct": peer.percentiles(),
                "events": sum(map(len, texts)),
                "cpuSecondsPer1000Tokens": per_1000_tokens(streaming, count * TOKENS),
                "withSubmission": per_1000_tokens(used, count * TOKENS)["all"],
                "seconds": round(lasted, 1),
            }
            print(f"{count:3} streams: {json.dumps(found[str(count)])}", flush=True)
        return found


def run(facts: dict[str, Any], url: str, root: int, streams: tuple[int, ...]) -> dict[str, Any]:
    """`root` is the process that runs the stack."""
    return asyncio.run(measured(facts, url, root, streams))
