"""`make demo`: two shops submit tasks at once. It shows progress and a text, saves pictures, prints ledgers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp

from artiway.tasks import catalogue
from local import photos, promises, story
from local.__main__ import DEFAULT_PORT
from local.shop import ENDED, Person, Platform, running_facts
from local.stack import CannotStart, Stack
from local.supervisor import supervised, until_interrupted
from local.text_model import TextModel
from local.workers import Workers
from local.writing import Writing, write_copy

LIMIT_SECONDS = 300
GRANT_POINTS = 100
BAR_CELLS = 28
POLL_SECONDS = 0.4
GREETING_SECONDS = 30
SETTLED_SECONDS = 15
FAIRNESS_SECONDS = 300
JOB_SECONDS = 5
RUN_ENDED = {"SUCCESS", "FAILED", "TERMINATED"}
# As long as a shop's own notes: to one sentence the small model often answers with eight words.
PRODUCT = (
    "A blue shirt of organic cotton with long sleeves and a soft collar. Washed before it is sewn, so it does not"
    " shrink. Mother-of-pearl buttons, a pocket on the chest, and a straight hem that can be worn loose. For work with"
    " a jacket, for the weekend with jeans. Machine wash at 40 degrees, iron while damp. Sizes S to XXL."
)


@dataclass
class Tenant:
    """One tenant of the demo: its user, its task and the events that it received."""

    label: str
    title: str
    person: Person
    count: int
    product: photos.Garment
    task: dict[str, Any] = field(default_factory=dict)
    view: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    is_settled: asyncio.Event = field(default_factory=asyncio.Event)


class Screen:
    """Moving progress bars on a terminal; on other outputs one line for each event."""

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
    """The stack that runs in this home, or a new one that stops with the demo."""
    if facts := running_facts(home):
        print(f"The stack at {facts['consoleUrl']} is running: the demo uses it.", flush=True)
        yield facts
        return
    port = int(os.environ.get("ARTIWAY_PORT") or DEFAULT_PORT)
    print("Starting the stack ...", flush=True)
    stack = Stack(
        home=home,
        port=port,
        services=[Workers(home)],
        text_model=TextModel(home),
        interrupted=interrupted,
        report=lambda line: print(line, flush=True),
    )
    with stack:
        yield stack.facts


async def _play(facts: Mapping[str, Any], folder: Path) -> int:
    began = datetime.now(UTC)
    async with Platform.at(facts, retry_for_s=20) as platform:
        administrator = await platform.administrator()
        await administrator.wait_for_workers(len(catalogue.load().types))
        await _warm_up(administrator)
        tenants = [
            Tenant(
                "A",
                "VIP shop, weight 5",
                await administrator.open_shop("Silk & Co", points=GRANT_POINTS, tier="vip", weight=5),
                count=3,
                product=photos.BLUE,
            ),
            Tenant(
                "B",
                "free shop, weight 1",
                await administrator.open_shop("Corner Store", points=GRANT_POINTS, tier="free", weight=1),
                count=1,
                product=photos.RED,
            ),
        ]
        screen = Screen()
        inputs = [await tenant.person.upload(_photo(tenant, folder)) for tenant in tenants]
        async with contextlib.AsyncExitStack() as sockets:
            for tenant in tenants:
                await sockets.enter_async_context(_listening(tenant, screen))
            for tenant, input_id in zip(tenants, inputs, strict=True):
                tenant.task = await tenant.person.submit("model_photo", {"product": input_id}, count=tenant.count)
            print("\nA submits a task, then B:")
            for tenant in tenants:
                await _show_hold(tenant)
            print()
            is_over = await _watch(tenants, screen)
        _show_order(tenants)
        for tenant in tenants:
            await _show_end(tenant, folder)
        writing = await _show_writing(tenants[0])
        await _show_fairness(administrator, tenants)
        is_fired = await _show_job(tenants[0].person, inputs[0])
        print(f"\nActual / promised duration: {promises.kept(facts['databaseUrl'], since=began)}")
        is_right = is_over and is_fired and all(_is_right(tenant) for tenant in tenants) and writing.is_right
        print(
            "\nThe demo is over: both got pictures, charges and events, A its copy, and the job fired."
            if is_right
            else "\nThe demo failed."
        )
        return 0 if is_right else 1


async def _warm_up(administrator: Person) -> None:
    """Run one task of a third shop first, so that cold starts do not change the order that the demo shows."""
    print("A third shop runs one task first, so that all functions are warm ...", flush=True)
    shop = await administrator.open_shop("Warm-up", points=GRANT_POINTS, tier="standard")
    task = await shop.submit("model_photo", {"product": await shop.upload(photos.shirt(photos.BLUE, side=160))})
    async with asyncio.timeout(LIMIT_SECONDS):
        while (await shop.task(task["taskId"]))["status"] not in ENDED:  # noqa: ASYNC110 (the platform changes it)
            await asyncio.sleep(POLL_SECONDS)


def _photo(tenant: Tenant, folder: Path) -> bytes:
    picture = photos.shirt(tenant.product)
    (folder / f"{tenant.label}-product.png").write_bytes(picture)
    return picture


@contextlib.asynccontextmanager
async def _listening(tenant: Tenant, screen: Screen) -> AsyncIterator[None]:
    """Connect and wait for the greeting, so that no event is missed."""
    platform = tenant.person.platform
    url = f"{platform.facts['wsUrl']}?token={tenant.person.token}"
    async with platform.session.ws_connect(url) as socket:
        greeting = await socket.receive_json(timeout=GREETING_SECONDS)
        assert greeting["type"] == "connected", greeting
        listener = asyncio.create_task(_listen(tenant, socket, screen))
        try:
            yield
        finally:
            listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listener


async def _listen(tenant: Tenant, socket: aiohttp.ClientWebSocketResponse, screen: Screen) -> None:
    async for message in socket:
        event = message.json()
        tenant.events.append(event)
        kind, node = event["type"].removeprefix("task."), event.get("node", "")
        if kind != "progress":
            indent = "" if tenant.label == "A" else " " * 30
            screen.event(f"{indent}{tenant.label} {node or 'task'} {kind}")
        if kind == "settled":
            tenant.is_settled.set()


async def _watch(tenants: list[Tenant], screen: Screen) -> bool:
    """Wait until both tasks have ended and both tenants got the settlement event."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        for tenant in tenants:
            tenant.view = await tenant.person.task(tenant.task["taskId"])
        screen.bars([line for tenant in tenants for line in _bars(tenant)])
        if all(tenant.view["status"] in ENDED for tenant in tenants):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(
                    asyncio.gather(*(tenant.is_settled.wait() for tenant in tenants)), SETTLED_SECONDS
                )
            return True
        await asyncio.sleep(POLL_SECONDS)
    print(f"not over after {LIMIT_SECONDS} s", file=sys.stderr)
    return False


def _bars(tenant: Tenant) -> list[str]:
    marks = {"COMPLETED": "■", "PROCESSING": "▶", "QUEUED": "·", "PENDING": " "}
    nodes = "  ".join(f"{node['name']} {marks.get(node['status'], '×')}" for node in tenant.view["nodes"])
    filled = tenant.view["progress"] * BAR_CELLS // 100
    bar = "█" * filled + "░" * (BAR_CELLS - filled)
    return [f"  {tenant.label} {bar} {tenant.view['progress']:3d} %  {nodes}"]


async def _show_hold(tenant: Tenant) -> None:
    points = await tenant.person.call("GET", "/points")
    print(
        f"  {tenant.label}  {tenant.title:20}  {tenant.count} model photos in lane {tenant.task['lane']:13}"
        f"  price {tenant.task['pricePoints']}, frozen {points['frozen']}, balance {points['balance']}"
    )


def _show_order(tenants: list[Tenant]) -> None:
    """The fair queue orders the nodes that wait for a worker; a node that finds its worker free starts at once."""
    starts = [start for tenant in tenants for start in story.starts_of(tenant.label, tenant.view, tenant.events)]
    print("\nOrder of starts on the worker of each type:")
    for kind, row in story.order(starts).items():
        print(f"  {kind:8} {' '.join(map(str, row))}")
    heavy, light = tenants
    for reason in story.reasons(starts, heavy=heavy.label, light=light.label):
        print(f"  {reason}")


async def _show_end(tenant: Tenant, folder: Path) -> None:
    tenant.view = await tenant.person.task(tenant.task["taskId"])
    print(f"\n{tenant.label}  {tenant.title}: {tenant.view['status']}, charged {tenant.view['chargedPoints']} points")
    for result in tenant.view["results"]:
        file = folder / f"{tenant.label}-{result['name']}.png"
        file.write_bytes(await tenant.person.fetch(result["url"]))
        print(f"   picture  {file}  {result['width']} x {result['height']}")
    engines = {node["engine"]["name"]: node["engine"] for node in tenant.view["nodes"] if node["engine"]}
    for engine in engines.values():
        print(f"   made by  {engine['name']} {engine.get('version', '')} (neural: {engine.get('isNeural', '?')})")
    print(f"   events   {len(tenant.events)} WebSocket messages")
    for entry in reversed(await tenant.person.all_of("/points/ledger")):
        print(
            f"   ledger   {entry['kind']:8} balance {entry['balanceDelta']:+5d}  frozen {entry['frozenDelta']:+4d}"
            f"  ->  {entry['balance']} and {entry['frozen']}"
        )


async def _show_writing(tenant: Tenant) -> Writing:
    print(f"\n{tenant.label} has copy written for its shirt, shown as the language model writes it:\n\n   ", end="")
    writing = await write_copy(tenant.person, PRODUCT)
    model = f"{writing.start.get('provider')}/{writing.start.get('modelId')}"
    print(f"\n\n   {writing.end_name}: {model} in lane {writing.start.get('queueId')}, {writing.pieces} pieces", end="")
    print(f", first after {writing.first_token_s:.1f} s, whole after {writing.whole_s:.1f} s")
    usage, points = writing.end.get("usage") or {}, writing.end.get("points")
    print(f"   usage {usage} by the {writing.end.get('usageSource')}, {points} of {writing.made['pricePoints']} points")
    return writing


async def _show_fairness(administrator: Person, tenants: list[Tenant]) -> None:
    found = await administrator.call("GET", f"/ops/fairness?windowSeconds={FAIRNESS_SECONDS}")
    labels = {tenant.person.tenant_id: tenant.label for tenant in tenants}
    print(f"\nFairness of the last {FAIRNESS_SECONDS // 60} minutes (GPU seconds as the scheduler counted them)")
    for share in found["tenants"]:
        print(
            f"   {labels.get(share['tenantId'], 'another'):7}  weight {share['weight']}  {share['service']:6.1f} s"
            f"  share {share['share']:4.0%}"
            f"  {'contending' if share['isContending'] else 'had no node waiting at times, so not compared'}"
        )
    if worst := found["worstPair"]:
        print(f"   worst pair: {worst['gap']:.1f} s per weight apart, {worst['bound']:.1f} s allowed")


async def _show_job(person: Person, input_id: str) -> bool:
    """A schedules one more photo, some seconds ahead. The run goes through the fair queue as any task."""
    await person.call("GET", "/jobs")  # a function that starts now must not use up the seconds
    at = (datetime.now(UTC) + timedelta(seconds=JOB_SECONDS)).replace(microsecond=0)
    body = {
        "name": "one more photo",
        "schedule": {"type": "ONCE", "at": at.isoformat(), "timezone": "Asia/Shanghai"},
        "task": {"type": "TASK", "tool": "model_photo", "inputs": {"product": input_id}, "count": 1},
    }
    job = await person.call("POST", "/jobs", body, key=uuid4().hex)
    print(f"\nA schedules a job: {job['description']}")
    run: dict[str, Any] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LIMIT_SECONDS):
            while run.get("state") not in RUN_ENDED:
                await asyncio.sleep(POLL_SECONDS)
                run = next(iter((await person.call("GET", f"/runs?jobId={job['jobId']}"))["items"]), {})
    for name in ("scheduledTime", "startedAt", "endedAt"):
        print(f"   {name:13}  {run.get(name)}")
    task = await person.task(run["taskId"]) if run.get("taskId") else {}
    charged = f"charged {task.get('chargedPoints', 0)} points"
    print(f"   run {run.get('state')}, attempt {run.get('attempt')}, task {task.get('status')}, {charged}")
    return run.get("state") == "SUCCESS" and task.get("status") == "COMPLETED"


def _is_right(tenant: Tenant) -> bool:
    types = {event["type"] for event in tenant.events}
    has_events = {"task.started", "task.completed", "task.settled"} <= types
    results = len(tenant.view["results"])
    is_charged = tenant.view["chargedPoints"] == tenant.task["pricePoints"] == 10 * tenant.count
    return tenant.view["status"] == "COMPLETED" and results == tenant.count and is_charged and has_events


if __name__ == "__main__":
    sys.exit(supervised(main))
