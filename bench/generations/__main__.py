"""How late a text arrives at its reader: `python -m bench.generations [--quick]`.

The whole platform on one machine: a provider writes 20 tokens a second, a function reads it and writes events to
Redis, another streams them through the edge to a client. A token is the time at which the provider sent it. The same
provider is read directly in the same run. Functions are warm: each number of streams runs once before it is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp

from bench.generations.provider import TOKENS_PER_SECOND
from local.servers import free_port, port_is_open
from local.shop import Person, Platform
from local.stack import Stack

RESULTS = Path(__file__).parent.parent / "results" / "generations.json"
STREAMS = (1, 10, 50)
TOKENS = 100
WAIT_S = 240
UNLIMITED = aiohttp.ClientTimeout(total=None)
SANDBOXES = 72  # three quarters of them may stream
GOAL_FIRST_MS, GOAL_GAP_MS = 150, 100
PROVIDER, MODEL, SERVICE = "bench", "stamps", "copywriting"
LANE = "paid_stream"


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

    async def run(self) -> list[list[tuple[float, str]]]:
        await self._administrator.call("POST", f"/ops/lanes/{LANE}/pause")
        reading = [asyncio.create_task(self._read(person)) for person in self._people]
        await asyncio.wait_for(self._connected.wait(), WAIT_S)
        await self._administrator.call("POST", f"/ops/lanes/{LANE}/resume")
        return await asyncio.wait_for(asyncio.gather(*reading), WAIT_S)

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


def cpu_seconds(excluded: int) -> float:
    """Of this process and all that it started, without the provider."""
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
        while pid not in (0, 1, os.getpid(), excluded):
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return sum(seconds for pid, seconds in used.items() if is_ours(pid))


@contextmanager
def provider() -> Iterator[tuple[str, int]]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "bench.generations.provider", str(port)])
    try:
        while not port_is_open(port):
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1", process.pid
    finally:
        process.terminate()
        process.wait()


async def measured(facts: dict[str, Any], url: str, provider_pid: int, streams: tuple[int, ...]) -> dict[str, Any]:
    async with Platform.at(facts, retry_for_s=30) as platform_:
        administrator = await platform_.administrator()
        await administrator.call("PATCH", f"/ops/lanes/{LANE}", {"parallelism": max(streams)})
        people = [await administrator.open_shop(f"bench-{n}", points=10_000, tier="vip") for n in range(max(streams))]
        found: dict[str, Any] = {}
        for count in streams:
            for _ in ("warm-up", "measured"):
                before, begun = cpu_seconds(provider_pid), time.monotonic()
                texts = await Round(administrator, people[:count]).run()
                used, lasted = cpu_seconds(provider_pid) - before, time.monotonic() - begun
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
                "cpuSecondsPer1000Tokens": round(used / (count * TOKENS) * 1_000, 2),
                "seconds": round(lasted, 1),
            }
            print(f"{count:3} streams: {json.dumps(found[str(count)])}", flush=True)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one and five streams only")
    streams = (1, 5) if parser.parse_args().quick else STREAMS
    with provider() as (url, pid), tempfile.TemporaryDirectory() as home:
        model = {"id": MODEL, "inputPoints": 1, "outputPoints": 1}
        providers = {
            "providers": [{"name": PROVIDER, "baseUrl": url, "models": [model]}],
            "routes": {SERVICE: {"paid": [f"{PROVIDER}/{MODEL}"], "free": [f"{PROVIDER}/{MODEL}"]}},
        }
        parameters = {"TextProvidersText": json.dumps(providers)}
        with Stack(home=Path(home), port=free_port(), parameters=parameters, sandboxes=SANDBOXES) as stack:
            found = asyncio.run(measured(stack.facts, url, pid, streams))
    most = found[str(max(streams))]["ours"]
    goals = {
        f"first byte p95 < {GOAL_FIRST_MS} ms": most["firstMs"]["p95"] < GOAL_FIRST_MS,
        f"gap p95 < {GOAL_GAP_MS} ms": most["gapMs"]["p95"] < GOAL_GAP_MS,
    }
    for goal, is_met in goals.items():
        print(f"{max(streams)} streams of {TOKENS_PER_SECOND} tokens/s: {goal}: {'met' if is_met else 'MISSED'}")
    RESULTS.parent.mkdir(exist_ok=True)
    facts = {"machine": platform.machine(), "cpus": os.cpu_count(), "python": platform.python_version()}
    RESULTS.write_text(json.dumps({"facts": facts, "streams": found, "goals": goals}, indent=1) + "\n")


if __name__ == "__main__":
    main()
