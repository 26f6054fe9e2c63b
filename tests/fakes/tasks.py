"""A whole platform in one process: rules, PostgreSQL and Redis are real; queues, Step Functions, workers, time are not.

One seed decides everything that is left to chance, so a run that fails is played again by its number.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Protocol
from uuid import UUID

import psycopg
import redis
from psycopg.rows import dict_row

from artiway import ids
from artiway.audit.repository import AuditLog
from artiway.delivery.feed.queue import RedisFeed, RedisListeners
from artiway.delivery.feed.service import FeedService, announce
from artiway.delivery.webhooks.model import Limits, SettledTask
from artiway.delivery.webhooks.outbound import WebhookPost
from artiway.delivery.webhooks.repository import PostgresWebhooks
from artiway.delivery.webhooks.service import WebhookService
from artiway.outbox.model import Envelope
from artiway.outbox.repository import Outbox, PostgresStore
from artiway.outbox.service import Relay
from artiway.platform.clock import Clock
from artiway.platform.database import Database
from artiway.platform.outbound import Client
from artiway.points.model import Change, Kind
from artiway.points.repository import PostgresLedger
from artiway.points.service import PointsService
from artiway.recovery.invariants import Invariants
from artiway.recovery.mirror import SlotMirror
from artiway.recovery.repository import PostgresFinds, PostgresLooks, PostgresSlots
from artiway.recovery.service import Patience, Sweeper
from artiway.scheduling.dispatcher import Dispatcher as FairDispatcher
from artiway.scheduling.queue import FairQueue
from artiway.scheduling.repository import PostgresBook
from artiway.tasks import catalogue
from artiway.tasks.lifecycle import NodeService, Rules
from artiway.tasks.model import FlowNode, Left, Published, Report, Requester, WorkerCard
from artiway.tasks.progress import Progress
from artiway.tasks.reports import report_from
from artiway.tasks.repository import PostgresNodes, PostgresTasks
from artiway.tasks.service import Picture, TaskService

POOL = "gpu"
TYPES = ("cutout", "model", "compose", "extend", "hd_fix")
MANAGER = Requester(UUID(int=0), may_manage=True)  # for tests in which it does not matter who cancels or retries
# Letters that may end among the dead ones. What Step Functions calls by itself is tried again until it answers.
LOSABLE = ("machine", "lane", "work", "progress", "push")
MAP_LIMIT = 4  # far below 40, so that the order of a bounded Map matters


class Crash(Exception):
    """The process died here."""


@dataclass
class Chaos:
    """What goes wrong, and how often. All zero is a quiet day.

    Before and after each effect on the world there is a point where the process can die. It is named by who acts and by
    how many points that act has passed, so the list of points is found by letting things happen and writing them down.
    """

    random: Random
    crash: float = 0.0
    duplicate: float = 0.0
    refuse: float = 0.0
    lose: float = 0.0
    delay: float = 0.0
    actor: str = "nobody"
    passed: int = 0
    met: dict[str, None] = field(default_factory=dict)
    # One point to die at.
    fuse: str | None = None

    def act(self, actor: str) -> None:
        self.actor, self.passed = actor, 0

    def point(self, name: str) -> None:
        self.passed += 1
        full = f"{self.actor} {self.passed}: {name}"
        self.met[full] = None
        if self.fuse == full:
            self.fuse = None
            raise Crash(full)
        if self.crash and self.random.random() < self.crash:
            raise Crash(full)

    @contextlib.contextmanager
    def around(self, effect: str) -> Iterator[None]:
        self.point(f"before {effect}")
        yield
        self.point(f"after {effect}")

    def calm(self) -> None:
        self.crash = self.duplicate = self.refuse = self.lose = self.delay = 0.0


class MortalDatabase(Database):
    """Dies, now and then, before a commit or after it. A transaction that wrote nothing has no effect to die at."""

    chaos: Chaos

    def _end(self, command: bytes) -> None:
        if command != b"COMMIT" or not self._has_written():
            super()._end(command)
            return
        try:
            with self.chaos.around("commit"):
                super()._end(command)
        except Crash:
            self._end(b"ROLLBACK")  # as the server does when the connection of the dead is gone
            raise

    def _has_written(self) -> bool:
        assert self._connection is not None
        row = self._connection.execute(b"SELECT pg_current_xact_id_if_assigned() AS written").fetchone()
        return row is not None and row["written"] is not None


class MortalFeed(RedisFeed):
    chaos: Chaos

    def add(self, events: Sequence[Published]) -> None:
        with self.chaos.around("event stream"):
            super().add(events)

    def note_progress(self, report: Report, node: str, body: dict[str, Any]) -> str:
        with self.chaos.around("progress stream"):
            return super().note_progress(report, node, body)


class MovingClock:
    """The real time, and what the world has let pass."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._network.now)


class Dispatcher(Protocol):
    """The seam to the scheduler: told that nodes are ready or gone, it begins attempts at those whose turn it is."""

    def ready(self, node_ids: Sequence[UUID], tokens: Mapping[UUID, str] | None = None) -> int: ...

    def left(self, nodes: Sequence[Left]) -> int: ...

    def reconcile(self, pool: str) -> object: ...


class Picker:
    """First come, first served, from the database alone."""

    def __init__(self, nodes: PostgresNodes, database: Database, chaos: Chaos, *, slots: int) -> None:
        self._nodes, self._database, self._chaos, self._slots = nodes, database, chaos, slots

    def ready(self, node_ids: Sequence[UUID], tokens: Mapping[UUID, str] | None = None) -> int:
        self._nodes.mark_ready(node_ids, tokens)
        self._chaos.point("nodes ready")
        return self.dispatch()

    def left(self, nodes: Sequence[Left]) -> int:
        return self.dispatch()

    def reconcile(self, pool: str) -> int:
        return self.dispatch()

    def refresh(self, pool: str, *, is_forced: bool = False) -> None:
        """It asks the database each time."""

    def dispatch(self, _pool: str = POOL) -> int:
        with self._database.service_transaction() as tx:
            held = tx.one(b"SELECT count(*) AS held FROM slot_in_use")
            rows = tx.all(
                b"SELECT node_id, cost_us FROM task_node WHERE status = 'QUEUED' AND dispatched_at IS NULL"
                b" ORDER BY ready_at, node_id"
            )
        assert held is not None
        chosen = [(row["node_id"], row["cost_us"], 1) for row in rows[: max(0, self._slots - held["held"])]]
        return len(self._nodes.dispatch(chosen)) if chosen else 0


class Pictures:
    """Every upload is there and good."""

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


class NoPost:
    def refusal(self, url: str, *, is_looked_up: bool) -> str | None:
        return WebhookPost(Client(), timeout_s=1, lookup_s=1).refusal(url, is_looked_up=False)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Any:
        raise AssertionError("nobody is called here")


@dataclass
class Letter:
    destination: str
    body: Mapping[str, Any]
    due: float


class Network:
    """All queues as one bag: any letter may be next, twice, or late."""

    def __init__(self, chaos: Chaos) -> None:
        self.chaos, self.letters, self.now = chaos, [], 0.0
        self.letters: list[Letter] = []

    def send(self, envelopes: Sequence[Envelope]) -> set[int]:
        accepted: set[int] = set()
        for envelope in envelopes:
            if self.chaos.refuse and self.chaos.random.random() < self.chaos.refuse:
                continue
            with self.chaos.around(f"message to {envelope.destination.partition(':')[0]}"):
                self.post(envelope.destination, json.loads(envelope.body), envelope.delay_s)
            accepted.add(envelope.outbox_id)
        return accepted

    def post(self, destination: str, body: Mapping[str, Any], delay_s: float = 0) -> None:
        if self.chaos.delay and self.chaos.random.random() < self.chaos.delay:
            delay_s += self.chaos.random.choice([2, 20, 60])
        self.letters.append(Letter(destination, body, self.now + delay_s))

    def take(self) -> Letter | None:
        due = [place for place, letter in enumerate(self.letters) if letter.due <= self.now]
        if not due:
            return None
        chance = self.chaos.random
        place = chance.choice(due)
        if self.chaos.duplicate and chance.random() < self.chaos.duplicate:
            # It comes again: at any moment from now on, or when its attempt may long be over.
            self.letters[place].due = self.now + chance.choice([0, 0, 35, 90])
            return self.letters[place]
        letter = self.letters.pop(place)
        if self.chaos.lose and letter.destination.partition(":")[0] in LOSABLE and chance.random() < self.chaos.lose:
            return self.take()
        return letter


@dataclass
class Iteration:
    node_id: str
    is_entry: bool
    state: str = "waiting"  # gate, ready, over
    token: str = ""


@dataclass
class Execution:
    name: str
    input: Mapping[str, Any]
    iterations: list[Iteration]
    is_over: bool = False


class Machine:
    """`task_dag` as Step Functions runs it: a bounded Map in order, tokens good for once, names that are taken once."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.executions: dict[str, Execution] = {}
        self._tokens: dict[str, tuple[Execution, Iteration]] = {}
        self._count = 0

    def start(self, name: str, machine_input: Mapping[str, Any]) -> None:
        if name in self.executions:
            return  # ExecutionAlreadyExists
        iterations = [Iteration(node["nodeId"], node["isEntry"]) for node in machine_input["nodes"]]
        execution = self.executions[name] = Execution(name, machine_input, iterations)
        self._go_on(execution)

    def answer(self, token: str) -> None:
        found = self._tokens.pop(token, None)
        if found is None:
            return  # TaskDoesNotExist, TaskTimedOut
        execution, iteration = found
        iteration.state = "over" if iteration.state == "ready" else "open"
        self._go_on(execution)

    def tokens(self) -> list[str]:
        return list(self._tokens)

    def give_up(self, token: str) -> None:
        """Nobody answered for too long, or the token was lost: that iteration is over, the others go on."""
        execution, iteration = self._tokens.pop(token)
        iteration.state = "over"
        self._go_on(execution)

    def forget(self) -> None:
        """The emulator was restarted: executions and tokens are gone, names are free again."""
        self.executions, self._tokens = {}, {}

    def _go_on(self, execution: Execution) -> None:
        running = [one for one in execution.iterations if one.state in ("gate", "ready")]
        for iteration in execution.iterations:
            if iteration.state == "open":
                self._ready(execution, iteration)
                running.append(iteration)
        for iteration in execution.iterations:
            if iteration.state == "waiting" and len(running) < MAP_LIMIT:
                running.append(iteration)
                if iteration.is_entry:
                    self._ready(execution, iteration)
                else:
                    iteration.state = "gate"
                    self._network.post("gate", self._message(execution, iteration))
        if not execution.is_over and all(one.state == "over" for one in execution.iterations):
            execution.is_over = True
            self._network.post("settle", {"data": execution.input})

    def _ready(self, execution: Execution, iteration: Iteration) -> None:
        iteration.state = "ready"
        self._network.post(f"lane:{execution.input['lane']}", self._message(execution, iteration))

    def _message(self, execution: Execution, iteration: Iteration) -> dict[str, Any]:
        self._count += 1
        iteration.token = f"token-{execution.name}-{self._count}"
        self._tokens[iteration.token] = (execution, iteration)
        return {
            "data": {
                "nodeId": iteration.node_id,
                "taskId": execution.input["taskId"],
                "tenantId": execution.input["tenantId"],
                "taskToken": iteration.token,
            }
        }


@dataclass
class Holding:
    order: Mapping[str, Any]
    sequence: int = 0
    is_asleep: bool = False


@dataclass
class Worker:
    card: WorkerCard
    held: list[Holding] = field(default_factory=list)


class World:
    """The services as bootstrap would join them, for one database."""

    def __init__(
        self,
        addresses: Any,
        client: redis.Redis,
        *,
        seed: int = 0,
        slots: int = 6,
        rules: Rules | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.random = Random(seed)
        self.chaos = Chaos(self.random)
        self.network = Network(self.chaos)
        self.machine = Machine(self.network)
        self.clock = self._make_clock()
        self.database, self.service_database, self.superuser = self._connect(addresses)
        self.database.chaos = self.service_database.chaos = self.chaos
        self.redis = client
        self.feed = self._make_feed(client)
        self.feed.chaos = self.chaos
        self.relay = Relay(PostgresStore(self.service_database), self.network)
        app_relay = Relay(PostgresStore(self.database), self.network)
        # What follows a commit may never happen; the process that would do it may be dead.
        outbox = Outbox(lambda tenant, names: self.mortal(lambda: app_relay.deliver(tenant, names)), self.clock)
        service_outbox = Outbox(
            lambda tenant, names: self.mortal(lambda: self.relay.deliver(tenant, names)), self.clock
        )
        self.nodes = PostgresNodes(self.service_database, service_outbox)
        self.dispatcher: Dispatcher = Picker(self.nodes, self.service_database, self.chaos, slots=slots)
        tell = announce(self.feed)
        self.store = PostgresTasks(
            self.database,
            outbox,
            self.clock,
            announce=lambda events: self.mortal(lambda: tell(events)),
            release=lambda left: self.mortal(lambda: self.dispatcher.left(left)),
        )
        self.points = PointsService(PostgresLedger(self.database, AuditLog()), self.clock)
        self.webhooks = WebhookService(PostgresWebhooks(self.database, outbox), NoPost(), self.clock, Limits())
        self.life = NodeService(
            self.store, self.nodes, self.points, self.webhooks, rules or Rules(), jitter=self.random.random
        )
        self.tasks = TaskService(
            self.store,
            self.points,
            Pictures(),
            catalogue.load(),
            self.life,
            self.clock,
            load_of=self.nodes.lane_load,
            hold_ttl_s=172_800,
            refusal_of=lambda url: NoPost().refusal(url, is_looked_up=False),
        )
        self.notices: list[Mapping[str, Any]] = []
        self.progress = Progress(
            self.store, self.life, self.feed, self.clock, tell=lambda _, __, body: self.notices.append(body)
        )
        self.events = FeedService(self.store, self.feed, RedisListeners(client, limit=2), pause=lambda _: None)
        self.bucket = Bucket()
        self.sweeper = Sweeper(
            PostgresFinds(self.service_database, service_outbox),
            self.store,
            self.life,
            self.points,
            self.bucket,
            patience or Patience(),
        )
        self._queue_of: Callable[[str], FairQueue] = lambda pool: FairQueue(self.redis, pool)
        mirror = SlotMirror(PostgresSlots(self.service_database), lambda pool: self._queue_of(pool), [POOL])
        self.invariants = Invariants(PostgresLooks(self.service_database), mirror)
        self.tenants: list[UUID] = []
        self.workers: list[Worker] = []

    def _make_clock(self) -> Clock:
        return MovingClock(self.network)

    def _make_feed(self, client: redis.Redis) -> MortalFeed:
        return MortalFeed(client, interval_ms=5_000)

    def _connect(self, addresses: Any) -> tuple[MortalDatabase, MortalDatabase, psycopg.Connection[dict[str, Any]]]:
        superuser = psycopg.connect(addresses.superuser, autocommit=True, row_factory=dict_row)
        return MortalDatabase(addresses.app), MortalDatabase(addresses.service), superuser

    def close(self) -> None:
        self.database.close()
        self.service_database.close()
        self.superuser.close()

    # Setting the stage

    def tenant(self, tier: str = "vip", *, points: int = 1_000_000, **overrides: int) -> tuple[UUID, UUID]:
        """A tenant with one user who has points."""
        tenant_id, user_id = ids.new_id(), ids.new_id()
        columns = ", ".join(["tenant_id", "name", "tier", *overrides])
        places = ", ".join(["%s"] * (3 + len(overrides)))
        self.superuser.execute(
            f"INSERT INTO tenant ({columns}) VALUES ({places})".encode(), [tenant_id, "T", tier, *overrides.values()]
        )
        self.superuser.execute("INSERT INTO app_user (tenant_id, user_id) VALUES (%s, %s)", [tenant_id, user_id])
        self.superuser.execute(  # somebody listens, so that there is something to push
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
        self.life.register(worker.card, engine="fake")
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
        """The real scheduler in the place of the plain picker."""
        queues: dict[str, FairQueue] = {}

        def queue_of(pool: str) -> FairQueue:
            return queues.setdefault(pool, FairQueue(self.redis, pool))

        self._queue_of = queue_of
        book = PostgresBook(self.service_database, AuditLog(), silence_s=30, window_s=3_600, samples=200, prefetch=0)
        self.dispatcher = FairDispatcher(self.nodes, book, queue_of, self.clock, crash_point=self.chaos.point)
        return queue_of

    # Letting things happen

    @staticmethod
    def mortal(act: Callable[[], object]) -> None:
        with contextlib.suppress(Crash):
            act()

    def advance(self, seconds: float) -> None:
        """Time passes: every timestamp of the world grows older, and the clocks of leases with it."""
        self.network.now += seconds
        for table, columns in AGEING.items():
            changes = ", ".join(f"{column} = {column} - make_interval(secs => %(s)s)" for column in columns)
            self.superuser.execute(
                f"UPDATE {table} SET {changes} WHERE tenant_id = ANY (%(tenants)s)".encode(),
                {"s": seconds, "tenants": self.tenants},
            )

    def deliver_one(self) -> bool:
        letter = self.network.take()
        if letter is None:
            return False
        try:
            self.receive(letter)
        except Crash:
            self.network.letters.append(letter)  # not acknowledged: it comes again
        return True

    def receive(self, letter: Letter) -> None:
        data = letter.body["data"]
        self.chaos.act(letter.destination.partition(":")[0])
        match letter.destination.partition(":")[0]:
            case "machine":
                if letter.destination == "machine:start":
                    self.machine.start(data["name"], data["input"])
                else:
                    self.machine.answer(data["token"])
            case "lane" if letter.body.get("type") == "worker_came":
                self.dispatcher.refresh(data["pool"], is_forced=True)
                self.dispatcher.dispatch(data["pool"])
            case "lane":
                node_id = UUID(data["nodeId"])
                token = data.get("taskToken")
                self.dispatcher.ready([node_id], {node_id: token} if token else None)
            case "work":
                self.offer(data)
            case "progress":
                if self.progress.handle([report_from(letter.body["type"], data)]):
                    raise Crash("progress")
            case "gate":
                self.life.gate(
                    tenant_id=UUID(data["tenantId"]),
                    task_id=UUID(data["taskId"]),
                    node_id=UUID(data["nodeId"]),
                    token=data["taskToken"],
                )
            case "settle":
                self.life.settle(tenant_id=UUID(data["tenantId"]), task_id=UUID(data["taskId"]))
            case "push":
                self.notices.append(data["payload"])
            case "webhook_fanout":
                self.webhooks.fan_out(SettledTask.from_data(data))

    def offer(self, data: Mapping[str, Any]) -> None:
        """A worker finds a work message, claims the node, and may die before it knows that it has."""
        worker = self.random.choice(self.workers)
        node_id, attempt = UUID(data["nodeId"]), data["attempt"]
        order = self.life.claim(node_id=node_id, attempt=attempt, worker_id=worker.card.worker_id)
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
        error = {"code": code, "message": "as the seed says", "isRetryable": is_retryable}
        self.report(worker, holding, "failure", error=error)

    def beat(self) -> None:
        for worker in self.workers:
            self.chaos.act("beat")
            self.mortal(lambda worker=worker: self._beat(worker))  # type: ignore[misc]

    def _beat(self, worker: Worker) -> None:
        awake = [held for held in worker.held if not held.is_asleep]
        held = [(UUID(one.order["nodeId"]), one.order["attempt"]) for one in awake]
        verdicts = self.life.beat(worker.card, held)
        for one in awake:
            if verdicts[UUID(one.order["nodeId"])] != "go":
                worker.held.remove(one)

    def sweep(self, *, is_slow: bool = False) -> None:
        acts: dict[str, Callable[[], object]] = {
            "relay": lambda: self.relay.sweep(age_s=0, limit=500),
            "quick sweep": self.sweeper.quick,
            "scheduler": lambda: self.dispatcher.reconcile(POOL),
        }
        if is_slow:
            acts["slow sweep"] = self.sweeper.slow
        for name, act in acts.items():
            self.chaos.act(name)
            self.mortal(act)

    def settle_down(self, *, rounds: int = 200) -> None:
        """A quiet time in which all that was begun comes to its end, by deliveries, beats and sweeps alone."""
        self.chaos.calm()
        for number in range(rounds):
            while self.deliver_one():
                pass
            for worker in self.workers:
                for holding in list(worker.held):
                    self.finish(worker, holding)
            if not self.network.letters and not self.unsent() and not self.live():
                return
            if number % 3 == 2:
                self.advance(45)
                self.sweep(is_slow=number % 9 == 8)
        raise AssertionError(f"still alive: {self.live()}, unsent: {self.unsent()}")

    def unsent(self) -> list[dict[str, Any]]:
        return self.rows("SELECT destination FROM outbox WHERE sent_at IS NULL AND tenant_id = ANY (%s)", self.tenants)

    def live(self) -> list[dict[str, Any]]:
        return self.rows(
            "SELECT t.task_id, t.status, n.name, n.status AS node, n.in_degree, n.attempt"
            " FROM task t LEFT JOIN task_node n ON n.task_id = t.task_id AND n.superseded_at IS NULL"
            " AND n.status IN ('PENDING', 'QUEUED', 'PROCESSING')"
            " WHERE t.ended_at IS NULL AND t.tenant_id = ANY (%s)",
            self.tenants,
        )

    def assert_sound(self) -> None:
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


def flow(*edges: str, step: str = "derive") -> list[FlowNode]:
    """ "a", "a>b": nodes by their first mention, each depending on what stands before the arrow."""
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
