"""The functions of jobs as processes: the same services, fed from the same queues, without a Lambda around them."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from uuid import UUID

from artiway.jobs.backfills.repository import PostgresRelease
from artiway.jobs.backfills.service import BackfillRelease
from artiway.jobs.dispatch import DispatchService
from artiway.jobs.messages import CALLS, RESULTS, Call, Outcome, Result
from artiway.jobs.repository import PostgresRuns
from artiway.jobs.results import ResultService
from artiway.jobs.settings import CAPACITY
from artiway.jobs.trigger import TriggerService
from artiway.outbox.queue import SqsSender
from artiway.outbox.repository import Outbox, PostgresStore
from artiway.outbox.service import Relay
from artiway.platform import aws
from artiway.platform.clock import SystemClock
from artiway.platform.database import Database
from artiway.settings.model import Fixed
from bench.jobs.world import World

PASS_S = 5
SWEEP_S, SWEEP_AGE_S, SWEEP_LIMIT = 5, 10, 500
# Invocations at once. A dispatcher that waits for the second of its runs holds one of them.
DISPATCHERS = ("run_critical", "run_critical", "run_high", "run_high", *["run_normal"] * 4, "run_low", "run_low")
SINKS, CALLERS, WRITERS = 2, 10, 2
# A process writes its notes when it stops; a pass on busy cores may last long.
STOP_S = 300
# The variable with host and port of the target that callers may reach.
TARGET = "BENCH_TARGET"


class Services:
    """One connection, as in one Lambda instance."""

    def __init__(self, world: World, capacity: int) -> None:
        database, values = Database(world.service_url), Fixed({CAPACITY: capacity})
        self.relay = Relay(PostgresStore(database), SqsSender(world.queues))
        runs = PostgresRuns(database, Outbox(self.relay.deliver))
        self.dispatch = DispatchService(runs, values, pause=time.sleep)
        self.release = BackfillRelease(PostgresRelease(runs), values, wake=self.dispatch.wake)
        self.trigger = TriggerService(runs, values, wake=self.release.release_and_wake)
        self._results = ResultService(runs, self.dispatch, jitter=lambda: 0.5)

    def apply(self, results: list[Result]) -> None:
        """As the function of results does."""
        self._results.apply(results)
        self.release.release()


@dataclass
class Role:
    """What one thread of a process needs."""

    world: World
    stop: Event
    capacity: int
    notes: list[Any]

    def services(self) -> Services:
        return Services(self.world, self.capacity)

    def consume(self, queue: str, handle: Callable[[list[dict[str, Any]]], None]) -> None:
        """Messages ten at a time, deleted after they were handled."""
        sqs, url = aws.client("sqs"), self.world.queues[queue]
        while not self.stop.is_set():
            answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
            if found := answer.get("Messages", []):
                handle([json.loads(message["Body"])["data"] for message in found])
                entries = [{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(found)]
                sqs.delete_message_batch(QueueUrl=url, Entries=entries)


def trigger(role: Role) -> None:
    services, next_at = role.services(), time.monotonic()
    while not role.stop.is_set():
        began, began_at = time.perf_counter(), time.time()
        counts = services.trigger.run_pass()
        role.notes.append({"at": began_at, "seconds": time.perf_counter() - began, **counts})
        next_at = max(next_at + PASS_S, time.monotonic())
        role.stop.wait(next_at - time.monotonic())


def sweep(role: Role) -> None:
    services = role.services()
    while not role.stop.wait(SWEEP_S):
        while sent := services.relay.sweep(age_s=SWEEP_AGE_S, limit=SWEEP_LIMIT):
            role.notes.append({"swept": sent})


def dispatcher(lane: str) -> Callable[[Role], None]:
    def run(role: Role) -> None:
        services = role.services()

        def handle(batch: list[dict[str, Any]]) -> None:
            run_ids = [run_id for data in batch for run_id in data["runIds"]]
            role.notes.append((time.time(), run_ids))
            if run_ids:
                due_at = min(datetime.fromisoformat(data["at"]) for data in batch if data["runIds"])
                services.dispatch.admit([UUID(run_id) for run_id in run_ids], due_at=due_at)
            if not all(data["runIds"] for data in batch):
                services.dispatch.wake()

        role.consume(lane, handle)

    return run


def sink(role: Role) -> None:
    """Counts the calls that were handed over, and ends their runs without a call."""
    services = role.services()

    def handle(batch: list[dict[str, Any]]) -> None:
        calls = [Call.from_data(call) for data in batch for call in data["calls"]]
        role.notes.append((time.time(), [str(call.run_id) for call in calls]))
        services.apply([_succeeded(call) for call in calls])

    role.consume(CALLS, handle)


def caller(role: Role) -> None:
    from artiway.jobs.caller import Caller
    from artiway.jobs.outbound import HttpTarget
    from artiway.jobs.queue import ResultsQueue
    from artiway.platform.outbound import Client, parse_targets
    from artiway.tasks.calls.nodes import report_of

    target = HttpTarget(Client(allowed=parse_targets(os.environ[TARGET])))
    results = ResultsQueue(role.world.queues[RESULTS], SystemClock(), reports_url="", report_of=report_of)
    made = Caller(target, NoSecrets(), results, SystemClock())

    def handle(batch: list[dict[str, Any]]) -> None:
        calls = [Call.from_data(call) for data in batch for call in data["calls"]]
        role.notes.append((time.time(), [str(call.run_id) for call in calls]))
        made.make(calls, time_left_s=60)

    role.consume(CALLS, handle)


def writer(role: Role) -> None:
    services = role.services()
    role.consume(
        RESULTS, lambda batch: services.apply([Result.from_data(one) for data in batch for one in data["results"]])
    )


class NoSecrets:
    def decrypt(self, *, tenant_id: UUID, name: str, ciphertext: bytes) -> str:
        raise ValueError(name)


def _succeeded(call: Call) -> Result:
    now = datetime.now(UTC)
    return Result(
        call.tenant_id,
        call.run_id,
        call.generation,
        call.attempt,
        Outcome.SUCCEEDED,
        now,
        http_status=200,
        elapsed_ms=0,
    )


THREADS: dict[str, list[tuple[str, Callable[[Role], None]]]] = {
    "trigger": [("pass", trigger), ("sweep", sweep)],
    "dispatch": [("hint", dispatcher(lane)) for lane in DISPATCHERS],
    "sink": [("call", sink)] * SINKS,
    "caller": [("call", caller)] * CALLERS,
    "results": [("result", writer)] * WRITERS,
}


def _process(name: str, world: World, stop: Event, capacity: int) -> None:
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (logs and metrics are lines on standard output)
    notes: dict[str, list[Any]] = {}
    threads = []
    for kind, run in THREADS[name]:
        role = Role(world, stop, capacity, notes.setdefault(kind, []))
        threads.append(threading.Thread(target=_guarded, args=(run, role, notes.setdefault("failures", []))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    notes["cpu"] = [time.process_time()]
    (Path(world.folder) / f"{name}.json").write_text(json.dumps(notes))


def _guarded(run: Callable[[Role], None], role: Role, failures: list[str]) -> None:
    """A failed invocation is repeated, as Lambda would do."""
    while not role.stop.is_set():
        try:
            run(role)
        except Exception as error:  # noqa: BLE001
            failures.append(f"{type(error).__name__}: {error}"[:300])
            time.sleep(1)


@contextlib.contextmanager
def at_work(world: World, names: Sequence[str], *, capacity: int = 100_000) -> Iterator[dict[str, Any]]:
    """The processes; what they noted is there when they have stopped."""
    spawn = multiprocessing.get_context("spawn")
    stop, found = spawn.Event(), dict[str, Any]()
    processes = [spawn.Process(target=_process, args=(name, world, stop, capacity)) for name in names]
    for process in processes:
        process.start()
    try:
        yield found
    finally:
        stop.set()
        for process in processes:
            process.join(STOP_S)
            if process.is_alive():
                process.kill()
        for name in names:
            place = Path(world.folder) / f"{name}.json"
            found[name] = json.loads(place.read_text()) if place.exists() else {}
