"""The platform in one process: rules, PostgreSQL and Redis are real; queues, Step Functions, workers and time are not.

The services come from `bootstrap`, so their wiring is the one of production; only the outside is replaced. One seed
decides everything random, so a failed run can be repeated by its number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import psycopg
import redis
from psycopg.rows import dict_row

from artiway import bootstrap, ids
from artiway.bootstrap.base import pause
from artiway.bootstrap.delivery import webhook_post
from artiway.bootstrap.live_settings import service_setting_values, setting_values
from artiway.bootstrap.outbox import direct_push, sender
from artiway.bootstrap.tasks import jitter
from artiway.circuits import repository as circuits
from artiway.circuits.settings import FAILURES
from artiway.delivery.webhooks.model import SettledTask
from artiway.delivery.webhooks.outbound import WebhookPost
from artiway.jobs.caller import outcome_of
from artiway.jobs.messages import Call, Result
from artiway.outbox.model import Message
from artiway.platform.clock import Clock
from artiway.platform.database import Database
from artiway.platform.outbound import Client
from artiway.platform.settings import Settings
from artiway.points.model import Change, Kind
from artiway.scheduling.queue import FairQueue
from artiway.settings.model import Fixed, Setting
from artiway.tasks import catalogue
from artiway.tasks.calls.model import DueCall
from artiway.tasks.calls.nodes import report_of
from artiway.tasks.messages import CALL_DUE, WORKER_REGISTERED
from artiway.tasks.model import HTTP, FlowNode, ReleasedSlot, Requester, Waiting, WorkerCard
from artiway.tasks.reports import report_from
from artiway.tasks.repository import PostgresNodes
from artiway.tasks.service import Picture
from tests.simulation.chaos import Chaos, Crash, CrashingDatabase, CrashingFeed, until_crash
from tests.simulation.network import Machine, Network, QueuedMessage

POOL = "gpu"
REPORTS_ALONG = 3
TYPES = ("cutout", "model", "compose", "extend", "hd_fix")
MANAGER = Requester(UUID(int=0), may_manage=True)  # for tests in which the requester does not matter
# Load, forecasts and durations are read for each submission, and a worker gets no more nodes than it has slots.
SETTINGS = {"lane_load_s": 0, "forecast_s": 0, "durations_s": 0, "scheduler_prefetch": 0}


class MovingClock:
    """The real time, plus the seconds that the world has advanced."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._network.now)


class FirstComeScheduler:
    """Dispatches nodes in the order in which they became ready, from the database alone. A circuit stops its step."""

    def __init__(
        self,
        nodes: PostgresNodes,
        database: Database,
        chaos: Chaos,
        *,
        slots: int,
        place_calls: Callable[[], int],
    ) -> None:
        self._nodes, self._database, self._chaos, self._slots = nodes, database, chaos, slots
        self._place_calls = place_calls

    def ready(self, node_ids: Sequence[UUID], tokens: Mapping[UUID, str] | None = None) -> int:
        self._nodes.mark_ready(node_ids, tokens)
        self._chaos.point("nodes ready")
        return self.dispatch()

    def release(self, nodes: Sequence[ReleasedSlot], ready: Sequence[Waiting] = ()) -> int:
        return self.dispatch()

    def reconcile(self, pool: str) -> int:
        return self.dispatch()

    def refresh(self, pool: str, *, is_forced: bool = False) -> None:
        """It reads the database each time."""

    def dispatch(self, _pool: str = POOL) -> int:
        with self._database.service_transaction() as tx:
            held = tx.all(b"SELECT step FROM slot_in_use WHERE pool <> 'http'")
            rows = tx.all(
                b"SELECT node_id, cost_us, step FROM task_node"
                b" WHERE status = 'QUEUED' AND dispatched_at IS NULL AND pool <> 'http' ORDER BY ready_at, node_id"
            )
            stopped = circuits.stopped(tx)
        running = Counter(row["step"] for row in held)
        chosen = []
        for row in rows:
            circuit = stopped.of(POOL, row["step"])
            limit = None if circuit is None else circuit.limit(stopped.now)
            if running.total() < self._slots and (limit is None or running[row["step"]] < limit):
                running[row["step"]] += 1
                chosen.append((row["node_id"], row["cost_us"], 1))
        return self._place_calls() + (len(self._nodes.dispatch(chosen)) if chosen else 0)


class Pictures:
    """Every upload exists and is valid."""

    def inspect(self, tenant_id: UUID, input_ids: Sequence[UUID]) -> Mapping[UUID, Picture]:
        return {input_id: Picture(f"inputs/{tenant_id}/{input_id}", "image/png") for input_id in input_ids}


class Bucket:
    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.failing: set[str] = set()

    def delete(self, keys: Sequence[str]) -> Sequence[str]:
        gone = [key for key in keys if key not in self.failing]
        self.deleted += gone
        return gone


class Addresses:
    def get(self, key: str, *, ttl_s: int) -> str:
        return f"https://pictures.test/{key}?valid={ttl_s}"


class PlainCipher:
    def encrypt(self, *, tenant_id: UUID, name: str, value: str) -> bytes:
        return b"the same for every seed"


class Targets:
    """The targets of HTTP nodes, and the caller: `answer` returns the status of each call; None: no result arrives."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.answer: Callable[[Call], int | None] = lambda _: 200

    def result(self, call: Call, at: datetime) -> Result | None:
        self.calls.append(call)
        status = self.answer(call)
        if status is None:
            return None
        return Result(
            call.tenant_id,
            call.run_id,
            call.generation,
            call.attempt,
            outcome_of(status, call.success_statuses),
            at,
            http_status=status,
            error=f"the target answered {status}",
            answer=f"answer of {call.idempotency_key.partition(':')[2]}",
            elapsed_ms=7,
            node_of=call.node_of,
        )


class NoPost:
    def refusal(self, url: str, *, is_looked_up: bool) -> str | None:
        return WebhookPost(Client(), timeout_s=1, lookup_s=1).refusal(url, is_looked_up=False)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Any:
        raise AssertionError("this world calls no address")


@dataclass
class Holding:
    """A claimed node in the hands of a worker."""

    order: Mapping[str, Any]
    sequence: int = 0
    is_asleep: bool = False


@dataclass
class Worker:
    card: WorkerCard
    held: list[Holding] = field(default_factory=list)


class World:
    """The services of `bootstrap` on one database. One world is open at a time."""

    def __init__(
        self,
        addresses: Any,
        client: redis.Redis,
        *,
        seed: int = 0,
        slots: int = 6,
        values: Mapping[Setting[Any], Any] | None = None,
        **settings: Any,
    ) -> None:
        """`values` are live settings that differ from their defaults."""
        self.random = Random(seed)
        self.chaos = Chaos(self.random)
        self.network = Network(self.chaos)
        self.machine = Machine(self.network)
        self.clock = self._make_clock()
        self.database, self.service_database, self.superuser = self._connect(addresses)
        self.superuser.execute(b"DELETE FROM circuit")
        self.redis, self.bucket, self.targets = client, Bucket(), Targets()
        self.notices: list[Mapping[str, Any]] = []
        self.feed = self._make_feed(client)
        self.feed.chaos = self.database.chaos = self.service_database.chaos = self.chaos
        self._replace_outside(Settings(**SETTINGS | settings))
        # In every third seed circuits open often. Live settings would be read by the real time.
        live = Fixed({**({FAILURES: 2} if seed % 3 == 2 else {}), **(values or {})})
        service_setting_values.supply(live)
        setting_values.supply(live)
        self.node_store = bootstrap.node_store()
        bootstrap.scheduler.supply(
            FirstComeScheduler(
                self.node_store,
                self.service_database,
                self.chaos,
                slots=slots,
                place_calls=bootstrap.call_placement().place,
            )
        )
        self.relay, self.store, self.points = bootstrap.relay(), bootstrap.task_store(), bootstrap.points()
        self.nodes, self.tasks, self.progress = bootstrap.nodes(), bootstrap.tasks(), bootstrap.progress()
        self.webhooks, self.events = bootstrap.webhooks(), bootstrap.task_events()
        self.sweeper, self.invariants = bootstrap.sweeper(), bootstrap.invariants()
        self.tenants: list[UUID] = []
        self.workers: list[Worker] = []

    def _replace_outside(self, settings: Settings) -> None:
        """Time, connections, AWS, receivers of webhooks and randomness. Everything else is made by `bootstrap`."""
        bootstrap.forget_all()
        bootstrap.settings.supply(settings)
        bootstrap.clock.supply(self.clock)
        bootstrap.database.supply(self.database)
        bootstrap.service_database.supply(self.service_database)
        bootstrap.redis.supply(self.redis)
        bootstrap.task_feed.supply(self.feed)
        bootstrap.uploads.supply(Pictures())
        bootstrap.artefact_objects.supply(self.bucket)
        bootstrap.object_urls.supply(Addresses())
        bootstrap.job_secret_cipher.supply(PlainCipher())
        webhook_post.supply(NoPost())
        sender.supply(self.network)
        direct_push.supply(self._push_directly)
        jitter.supply(self.random.random)
        pause.supply(lambda _: None)

    def _push_directly(self, message: Message) -> None:
        self.notices.append(message.data["payload"])

    @property
    def dispatcher(self) -> Any:
        return bootstrap.scheduler()

    def _make_clock(self) -> Clock:
        return MovingClock(self.network)

    def _make_feed(self, client: redis.Redis) -> CrashingFeed:
        return CrashingFeed(client, interval_ms=5_000)

    def _connect(self, addresses: Any) -> tuple[CrashingDatabase, CrashingDatabase, psycopg.Connection[dict[str, Any]]]:
        superuser = psycopg.connect(addresses.superuser, autocommit=True, row_factory=dict_row)
        return CrashingDatabase(addresses.app), CrashingDatabase(addresses.service), superuser

    def close(self) -> None:
        bootstrap.forget_all()
        self.database.close()
        self.service_database.close()
        self.superuser.close()

    # Tenants, workers, rows

    def tenant(self, tier: str = "vip", *, points: int = 1_000_000, **overrides: int) -> tuple[UUID, UUID]:
        """A tenant with one user who has points and an open socket."""
        tenant_id, user_id = ids.new_id(), ids.new_id()
        columns = ", ".join(["tenant_id", "name", "tier", *overrides])
        places = ", ".join(["%s"] * (3 + len(overrides)))
        self.superuser.execute(
            f"INSERT INTO tenant ({columns}) VALUES ({places})".encode(), [tenant_id, "T", tier, *overrides.values()]
        )
        self.superuser.execute("INSERT INTO app_user (tenant_id, user_id) VALUES (%s, %s)", [tenant_id, user_id])
        self.superuser.execute(  # without an open socket no event is pushed
            "INSERT INTO websocket_connection (connection_id, tenant_id, user_id, expires_at)"
            " VALUES (%s, %s, %s, now() + interval '1 year')",
            [f"socket-{user_id}", tenant_id, user_id],
        )
        if points:
            change = Change(user_id, Kind.RECHARGE, points, "test", f"test:{user_id}")
            self.points.credit(tenant_id=tenant_id, change=change)
        self.tenants.append(tenant_id)
        return tenant_id, user_id

    def worker(self, name: str = "w1", types: Sequence[str] = TYPES, slots: int = 4) -> Worker:
        worker = Worker(WorkerCard(name, POOL, tuple(types), slots))
        self.nodes.register(worker.card, engine="fake")
        self.workers.append(worker)
        return worker

    def rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        return self.superuser.execute(query.encode(), parameters).fetchall()

    def statuses(self, task_id: UUID) -> dict[str, str]:
        rows = self.rows("SELECT name, status FROM task_node WHERE task_id = %s AND superseded_at IS NULL", task_id)
        return {row["name"]: row["status"] for row in rows}

    def task_row(self, task_id: UUID) -> dict[str, Any]:
        return self.rows("SELECT * FROM task WHERE task_id = %s", task_id)[0]

    def balance(self, tenant_id: UUID, user_id: UUID) -> tuple[int, int]:
        account = self.points.account(tenant_id=tenant_id, user_id=user_id)
        return account.balance, account.frozen

    def use_fair_queue(self) -> Callable[[str], FairQueue]:
        """Replace the simple scheduler by the real one."""
        bootstrap.scheduler.cache_clear()
        self.dispatcher._crash_point = self.chaos.point
        return bootstrap.fair_queues()

    # Events of the simulation

    def advance(self, seconds: float) -> None:
        """Let time pass: the clock moves, and every timestamp in the database moves back."""
        self.network.now += seconds
        for table, columns in AGEING.items():
            changes = ", ".join(f"{column} = {column} - make_interval(secs => %(s)s)" for column in columns)
            self.superuser.execute(
                f"UPDATE {table} SET {changes} WHERE tenant_id = ANY (%(tenants)s)".encode(),
                {"s": seconds, "tenants": self.tenants},
            )
        self.superuser.execute(
            b"UPDATE circuit SET opened_at = opened_at - make_interval(secs => %(s)s),"
            b" probe_at = probe_at - make_interval(secs => %(s)s)",
            {"s": seconds},
        )

    def deliver_one(self) -> bool:
        message = self.network.take()
        if message is None:
            return False
        try:
            self.receive(message)
        except Crash:
            self.network.messages.append(message)  # not acknowledged, so it is delivered again
        return True

    def receive(self, message: QueuedMessage) -> None:
        data = message.body["data"]
        self.chaos.act(message.destination.partition(":")[0])
        match message.destination.partition(":")[0]:
            case "machine":
                if message.destination == "machine:start":
                    self.machine.start(data["name"], data["input"])
                else:
                    self.machine.answer(data["token"])
            case "lane" if message.body.get("type") == WORKER_REGISTERED:
                self.dispatcher.refresh(data["pool"], is_forced=True)
                self.dispatcher.dispatch(data["pool"])
            case "lane":
                node_id = UUID(data["nodeId"])
                token = data.get("taskToken")
                self.dispatcher.ready([node_id], {node_id: token} if token else None)
            case "work":
                self.offer(data)
            case "progress" if message.body.get("type") == CALL_DUE:
                bootstrap.call_hand_over().hand_over(DueCall.from_data(data))
            case "run_calls":
                for call in map(Call.from_data, data["calls"]):
                    self.call(call)
            case "progress":
                along = self.network.take_along(message, REPORTS_ALONG)
                batch = [report_from(one.body["type"], one.body["data"]) for one in (message, *along)]
                if self.progress.handle(batch):
                    self.network.messages += along
                    raise Crash("progress")
            case "settle":
                self.nodes.settle(tenant_id=UUID(data["tenantId"]), task_id=UUID(data["taskId"]))
            case "push":
                self.notices.append(data.get("payload", {"type": "wake"}))
            case "webhook_fanout":
                self.webhooks.fan_out(SettledTask.from_data(data))

    def call(self, call: Call) -> None:
        """The caller makes a call in time, and reports its result."""
        assert call.node_of is not None
        if self.clock.now() < call.not_after and (result := self.targets.result(call, self.clock.now())) is not None:
            self.report_call(result)

    def report_call(self, result: Result) -> None:
        message = report_of(result)
        with self.chaos.around("message to progress"):
            self.network.post("progress:", {"type": message.type, "data": dict(message.data)})

    def offer(self, data: Mapping[str, Any]) -> None:
        """A worker overdue a work message, claims the node, and may die before it knows that it has."""
        worker = self.random.choice(self.workers)
        node_id, attempt = UUID(data["nodeId"]), data["attempt"]
        place = UUID(data["tenantId"]), UUID(data["taskId"])
        order = self.nodes.claim(node_id=node_id, attempt=attempt, worker_id=worker.card.worker_id, place=place)
        if order is None:
            return
        unmet = self.rows(
            "SELECT 1 FROM node_dependency e JOIN task_node b ON b.node_id = e.depends_on_id"
            " WHERE e.node_id = %s AND b.status <> 'COMPLETED'",
            node_id,
        )
        assert not unmet, f"{order['name']} started before its dependencies"
        assert all(source["key"] for source in order["inputs"])
        if all(held.order["nodeId"] != order["nodeId"] for held in worker.held):
            worker.held.append(Holding(order))

    def report(self, worker: Worker, holding: Holding, kind: str, **extra: Any) -> None:
        holding.sequence += 1
        order = holding.order
        data = {
            "nodeId": order["nodeId"],
            "taskId": order["taskId"],
            "tenantId": order["tenantId"],
            "attempt": order["attempt"],
            "workerId": worker.card.worker_id,
            "sequence": holding.sequence,
            **extra,
        }
        self.network.post("progress:", {"type": kind, "data": data})

    def finish(self, worker: Worker, holding: Holding) -> None:
        worker.held.remove(holding)
        name = catalogue.load().steps[holding.order["params"]["step"]].output
        output = {
            "name": name,
            "key": f"{holding.order['outputPrefix']}{name}.png",
            "contentType": "image/png",
            "width": 8,
            "height": 8,
            "bytes": 99,
        }
        self.report(worker, holding, "result", progress=100, gpuSeconds=1.5, outputs=[output], engine={"name": "fake"})

    def fail(self, worker: Worker, holding: Holding, *, is_retryable: bool) -> None:
        worker.held.remove(holding)
        code = "ENGINE_BUSY" if is_retryable else "INPUT_UNDECODABLE"
        error = {"code": code, "message": "chosen by the seed", "isRetryable": is_retryable}
        self.report(worker, holding, "failure", error=error)

    def beat(self) -> None:
        for worker in self.workers:
            self.chaos.act("beat")
            until_crash(lambda worker=worker: self._beat(worker))  # type: ignore[misc]

    def _beat(self, worker: Worker) -> None:
        awake = [held for held in worker.held if not held.is_asleep]
        held = [(UUID(one.order["nodeId"]), one.order["attempt"]) for one in awake]
        verdicts = self.nodes.beat(worker.card, held).verdicts
        for one in awake:
            if verdicts[UUID(one.order["nodeId"])] != "go":
                worker.held.remove(one)

    def sweep(self, *, is_slow: bool = False) -> None:
        sweeps: dict[str, Callable[[], object]] = {
            "relay": lambda: self.relay.sweep(age_s=0, limit=500),
            "quick sweep": self.sweeper.quick,
            "scheduler": lambda: self.dispatcher.reconcile(POOL),
            "calls": lambda: self.dispatcher.reconcile(HTTP),
        }
        if is_slow:
            sweeps["slow sweep"] = self.sweeper.slow
        for name, sweep in sweeps.items():
            self.chaos.act(name)
            until_crash(sweep)

    def run_to_end(self, *, rounds: int = 200) -> None:
        """Without faults, every task ends by deliveries, heartbeats and sweeps alone."""
        self.chaos.stop()
        for number in range(rounds):
            while self.deliver_one():
                pass
            for worker in self.workers:
                for holding in list(worker.held):
                    self.finish(worker, holding)
            if not self.network.messages and not self.unsent() and not self.live():
                return
            if number % 3 == 2:
                self.advance(45)
                self.sweep(is_slow=number % 9 == 8)
        raise AssertionError(f"not ended: {self.live()}, unsent: {self.unsent()}")

    def unsent(self) -> list[dict[str, Any]]:
        """Messages of the outbox, and tokens that stand for an answer."""
        return self.rows(
            "SELECT destination FROM outbox WHERE sent_at IS NULL AND tenant_id = ANY (%s)"
            " UNION ALL SELECT 'machine:answer' FROM node_token AS t JOIN task_node AS n USING (tenant_id, node_id)"
            " WHERE tenant_id = ANY (%s) AND (n.status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED')"
            " OR t.kind = 'gate' AND n.in_degree = 0)",
            self.tenants,
            self.tenants,
        )

    def live(self) -> list[dict[str, Any]]:
        return self.rows(
            "SELECT t.task_id, t.status, n.name, n.status AS node, n.in_degree, n.attempt"
            " FROM task t LEFT JOIN task_node n ON n.task_id = t.task_id AND n.superseded_at IS NULL"
            " AND n.status IN ('PENDING', 'QUEUED', 'PROCESSING')"
            " WHERE t.ended_at IS NULL AND t.tenant_id = ANY (%s)",
            self.tenants,
        )

    def assert_invariants(self) -> None:
        health = self.invariants.check()
        assert health.is_ok, [check for check in health.checks if not check.is_ok]


AGEING = {
    "task_node": (
        "lease_until",
        "dispatched_at",
        "hinted_at",
        "started_at",
        "not_before",
        "ready_at",
        "progress_at",
        "ended_at",
    ),
    "task": ("created_at", "execution_asked_at", "ended_at"),
    "node_token": ("issued_at", "answered_at"),
    "outbox": ("created_at",),
}


def http_node(name: str, *before: str, **params: Any) -> FlowNode:
    wanted = {"url": "https://shop.example/hook", **params}
    return FlowNode(name, None, "http", wanted, {}, {}, before)


def flow(*edges: str, step: str = "derive") -> list[FlowNode]:
    """ "a", "a>b": nodes by their first mention, each depending on the node before the arrow."""
    depends: dict[str, list[str]] = {}
    for edge in edges:
        before, _, after = edge.rpartition(">")
        depends.setdefault(after, [])
        if before:
            depends.setdefault(before, [])
            depends[after].append(before)
    picture = ids.new_id()
    return [
        FlowNode(
            name,
            step,
            None,
            {},
            {} if before else {"product": picture},
            {"product": before[0]} if before else {},
            tuple(before),
        )
        for name, before in depends.items()
    ]
