"""`make demo`: two shops ask for pictures at once. Plays it, shows it, saves the pictures, prints the settlement."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from artiway.tasks import catalogue
from local import photos, story
from local.__main__ import DEFAULT_PORT
from local.shop import ENDED, Person, Platform, running_facts
from local.stack import CannotStart, Stack
from local.supervisor import supervised, until_interrupted
from local.workers import Workers

LIMIT_SECONDS = 300
GRANT_POINTS = 100
BAR_CELLS = 28
LOOK_SECONDS = 0.4
GREETING_SECONDS = 30
SETTLED_SECONDS = 15
FAIRNESS_SECONDS = 300


@dataclass
class Guest:
    """One tenant of the story: who they are, what they ask for, what they were told."""

    letter: str
    title: str
    person: Person
    count: int
    product: photos.Garment
    task: dict[str, Any] = field(default_factory=dict)
    view: dict[str, Any] = field(default_factory=dict)
    told: list[dict[str, Any]] = field(default_factory=list)
    is_settled: asyncio.Event = field(default_factory=asyncio.Event)


class Screen:
    """Bars that move where there is a terminal; elsewhere a line for each event and nothing that moves."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._height = 0
        self._began = time.monotonic()

    def event(self, line: str) -> None:
        self._wipe()
        print(f"{time.monotonic() - self._began:6.1f} s  {line}", flush=True)

    def bars(self, lines: list[str]) -> None:
        if self._is_terminal:
            self._wipe()
            print("\n".join(lines), flush=True)
            self._height = len(lines)

    def _wipe(self) -> None:
        if self._height:
            print(f"\033[{self._height}F\033[J", end="")
            self._height = 0


def main(interrupted: threading.Event) -> int:
    home = Path(os.environ.get("ARTIWAY_HOME", ".artiway"))
    try:
        with _stack(home, interrupted) as facts:
            (home / "demo").mkdir(exist_ok=True)
            return asyncio.run(until_interrupted(_play(facts, home / "demo"), interrupted))
    except CannotStart as error:
        print(f"The demo cannot start the stack: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return 1


@contextlib.contextmanager
def _stack(home: Path, interrupted: threading.Event) -> Iterator[Mapping[str, Any]]:
    """The stack that runs in this home, or one of our own until the story is over."""
    if facts := running_facts(home):
        print(f"The stack at {facts['consoleUrl']} is running: the story plays there.", flush=True)
        yield facts
        return
    port = int(os.environ.get("ARTIWAY_PORT") or DEFAULT_PORT)
    print("Starting the stack ...", flush=True)
    stack = Stack(
        home=home,
        port=port,
        services=[Workers(home)],
        interrupted=interrupted,
        report=lambda line: print(line, flush=True),
    )
    with stack:
        yield stack.facts


async def _play(facts: Mapping[str, Any], folder: Path) -> int:
    async with Platform.at(facts, patience_s=20) as platform:
        administrator = await platform.administrator()
        await administrator.wait_for_workers(len(catalogue.load().types))
        await _rehearse(administrator)
        guests = [
            Guest(
                "A",
                "VIP shop, weight 5",
                await administrator.open_shop("Silk & Co", points=GRANT_POINTS, tier="vip", weight=5),
                count=3,
                product=photos.BLUE,
            ),
            Guest(
                "B",
                "free shop, weight 1",
                await administrator.open_shop("Corner Store", points=GRANT_POINTS, tier="free", weight=1),
                count=1,
                product=photos.RED,
            ),
        ]
        screen = Screen()
        inputs = [await guest.person.upload(_photo(guest, folder)) for guest in guests]
        async with contextlib.AsyncExitStack() as sockets:
            for guest in guests:
                await sockets.enter_async_context(_listening(guest, screen))
            for guest, input_id in zip(guests, inputs, strict=True):
                guest.task = await guest.person.submit("model_photo", {"product": input_id}, count=guest.count)
            print("\nA asks, and B right after it:")
            for guest in guests:
                await _show_hold(guest)
            print()
            is_over = await _watch(guests, screen)
        _show_order(guests)
        for guest in guests:
            await _show_end(guest, folder)
        await _show_fairness(administrator, guests)
        is_right = is_over and all(_is_right(guest) for guest in guests)
        print("\nThe story is over: both were served, charged and told." if is_right else "\nThe story went wrong.")
        return 0 if is_right else 1


async def _rehearse(administrator: Person) -> None:
    """A third shop's picture, made before anybody counts: the story is of turns, not of functions that start cold."""
    print("A third shop has a picture made first, so that everything is warm ...", flush=True)
    shop = await administrator.open_shop("Rehearsal", points=GRANT_POINTS, tier="standard")
    task = await shop.submit("model_photo", {"product": await shop.upload(photos.shirt(photos.BLUE, side=160))})
    async with asyncio.timeout(LIMIT_SECONDS):
        while (await shop.task(task["taskId"]))["status"] not in ENDED:  # noqa: ASYNC110 (it changes elsewhere)
            await asyncio.sleep(LOOK_SECONDS)


def _photo(guest: Guest, folder: Path) -> bytes:
    picture = photos.shirt(guest.product)
    (folder / f"{guest.letter}-product.png").write_bytes(picture)
    return picture


@contextlib.asynccontextmanager
async def _listening(guest: Guest, screen: Screen) -> AsyncIterator[None]:
    """Connected and greeted, so that nothing is missed."""
    platform = guest.person.platform
    url = f"{platform.facts['wsUrl']}?token={guest.person.token}"
    async with platform.session.ws_connect(url) as socket:
        greeting = await socket.receive_json(timeout=GREETING_SECONDS)
        assert greeting["type"] == "connected", greeting
        listener = asyncio.create_task(_listen(guest, socket, screen))
        try:
            yield
        finally:
            listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listener


async def _listen(guest: Guest, socket: aiohttp.ClientWebSocketResponse, screen: Screen) -> None:
    async for message in socket:
        heard = message.json()
        guest.told.append(heard)
        kind, node = heard["type"].removeprefix("task."), heard.get("node", "")
        if kind != "progress":
            indent = "" if guest.letter == "A" else " " * 30
            screen.event(f"{indent}{guest.letter} {node or 'task'} {kind}")
        if kind == "settled":
            guest.is_settled.set()


async def _watch(guests: list[Guest], screen: Screen) -> bool:
    """Until both are over and both were told so."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        for guest in guests:
            guest.view = await guest.person.task(guest.task["taskId"])
        screen.bars([line for guest in guests for line in _bars(guest)])
        if all(guest.view["status"] in ENDED for guest in guests):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*(guest.is_settled.wait() for guest in guests)), SETTLED_SECONDS)
            return True
        await asyncio.sleep(LOOK_SECONDS)
    print(f"not over after {LIMIT_SECONDS} s", file=sys.stderr)
    return False


def _bars(guest: Guest) -> list[str]:
    marks = {"COMPLETED": "■", "PROCESSING": "▶", "QUEUED": "·", "PENDING": " "}
    nodes = "  ".join(f"{node['name']} {marks.get(node['status'], '×')}" for node in guest.view["nodes"])
    filled = guest.view["progress"] * BAR_CELLS // 100
    bar = "█" * filled + "░" * (BAR_CELLS - filled)
    return [f"  {guest.letter} {bar} {guest.view['progress']:3d} %  {nodes}"]


async def _show_hold(guest: Guest) -> None:
    points = await guest.person.call("GET", "/points")
    print(
        f"  {guest.letter}  {guest.title:20}  {guest.count} model photos in lane {guest.task['lane']:13}"
        f"  price {guest.task['pricePoints']}, frozen {points['frozen']}, left {points['balance']}"
    )


def _show_order(guests: list[Guest]) -> None:
    """Among nodes that wait for one worker the clock decides; a node that comes to a free worker runs at once."""
    starts = [start for guest in guests for start in story.starts_of(guest.letter, guest.view, guest.told)]
    print("\nWho began when, on the one worker of each type:")
    for kind, row in story.order(starts).items():
        print(f"  {kind:8} {' '.join(map(str, row))}")
    heavy, light = guests
    for reason in story.reasons(starts, heavy=heavy.letter, light=light.letter):
        print(f"  {reason}")


async def _show_end(guest: Guest, folder: Path) -> None:
    guest.view = await guest.person.task(guest.task["taskId"])
    print(f"\n{guest.letter}  {guest.title}: {guest.view['status']}, charged {guest.view['chargedPoints']} points")
    for result in guest.view["results"]:
        file = folder / f"{guest.letter}-{result['name']}.png"
        file.write_bytes(await guest.person.fetch(result["url"]))
        print(f"   picture  {file}  {result['width']} x {result['height']}")
    engines = {node["engine"]["name"]: node["engine"] for node in guest.view["nodes"] if node["engine"]}
    for engine in engines.values():
        print(f"   made by  {engine['name']} {engine.get('version', '')} (neural: {engine.get('isNeural', '?')})")
    print(f"   told     {len(guest.told)} WebSocket messages")
    for entry in reversed(await guest.person.all_of("/points/ledger")):
        print(
            f"   ledger   {entry['kind']:8} balance {entry['balanceDelta']:+5d}  frozen {entry['frozenDelta']:+4d}"
            f"  ->  {entry['balance']} and {entry['frozen']}"
        )


async def _show_fairness(administrator: Person, guests: list[Guest]) -> None:
    found = await administrator.call("GET", f"/ops/fairness?windowSeconds={FAIRNESS_SECONDS}")
    letters = {guest.person.tenant_id: guest.letter for guest in guests}
    print(f"\nFairness of the last {FAIRNESS_SECONDS // 60} minutes (GPU seconds as the scheduler counted them)")
    for share in found["tenants"]:
        print(
            f"   {letters.get(share['tenantId'], 'another'):7}  weight {share['weight']}  {share['service']:6.1f} s"
            f"  share {share['share']:4.0%}"
            f"  {'contending' if share['isContending'] else 'not always waiting, so not compared'}"
        )
    if worst := found["worstPair"]:
        print(f"   worst pair: {worst['gap']:.1f} s per weight apart, {worst['bound']:.1f} s allowed")


def _is_right(guest: Guest) -> bool:
    heard = {message["type"] for message in guest.told}
    is_told = {"task.started", "task.completed", "task.settled"} <= heard
    results = len(guest.view["results"])
    is_charged = guest.view["chargedPoints"] == guest.task["pricePoints"] == 10 * guest.count
    return guest.view["status"] == "COMPLETED" and results == guest.count and is_charged and is_told


if __name__ == "__main__":
    sys.exit(supervised(main))
