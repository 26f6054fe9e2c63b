"""A world in which time, ids and random choices come from one seed, so that a seed always gives the same run.

Each transaction sets the time of PostgreSQL; ids, deliveries, workers and crashes are drawn from the seed. A run writes
a trace, and two runs of a seed write the same trace.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import psycopg
import redis
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from artiway import bootstrap, ids
from artiway.jobs.messages import Outcome, Result
from artiway.platform.clock import Clock
from artiway.platform.migrations import migrate
from artiway.tasks.model import Report
from tests.fakes.clock import NOON
from tests.simulation.chaos import CrashingDatabase, CrashingFeed
from tests.simulation.network import Network, QueuedMessage
from tests.simulation.world import POOL, Holding, Worker, World

TICK_S = 0.001
WRITE_INTERVAL_S = 5
STEPS_LIMIT = 20_000
SETTINGS = {
    "search_path": "public, pg_catalog",
    "simulation.now": NOON.isoformat(),
    # With a generic plan a statement returns its rows in the same order every time.
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}
RESTART = "ALTER SEQUENCE outbox_outbox_id_seq RESTART"
# The tables of a run, each with a unique order.
TABLES = {
    "task": "task_id",
    "task_node": "node_id",
    "node_history": "node_id, version",
    "task_event": "task_id, sequence",
    "points_ledger": "entry_id",
    "points_hold": "hold_id",
    "artefact": "artefact_id",
    "node_token": "token_id",
    "outbox": "outbox_id",
    "worker": "worker_id",
}


def make_simulated(addresses: Any) -> None:
    """Give an empty database the simulation's time, then the product's schema."""
    name = sql.Identifier(str(conninfo_to_dict(addresses.superuser)["dbname"]))
    with psycopg.connect(addresses.superuser, autocommit=True) as connection:
        connection.execute(Path(__file__).with_name("simulated_time.sql").read_bytes())
        for setting, value in SETTINGS.items():
            literal = sql.SQL("public, pg_catalog") if setting == "search_path" else sql.Literal(value)
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET {} = {}").format(name, sql.SQL(setting), literal)  # type: ignore[arg-type]
            )
    migrate(addresses.owner)
    with psycopg.connect(addresses.superuser, autocommit=True) as connection:
        connection.execute(
            "SELECT job_partition_ensure(date '2026-03-01' + number) FROM generate_series(0, 4) AS number"
        )
        for table in _tables(connection):
            # Autovacuum would change the order of rows at a random moment.
            connection.execute(sql.SQL("ALTER TABLE {} SET (autovacuum_enabled = false)").format(sql.Identifier(table)))
        connection.execute("VACUUM")


def _tables(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute(
        "SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE nspname = 'public' AND relkind = 'r' AND relname <> 'schema_migration' ORDER BY relname"
    ).fetchall()
    return [row[0] for row in rows]


class OrderlyCursor(psycopg.Cursor[Any]):
    """Sorts the rows of a statement without ORDER BY, so that their place in the table does not matter."""

    def fetchall(self) -> list[Any]:
        rows = super().fetchall()
        text = self._query.query if self._query else b""
        return sorted(rows, key=repr) if b"RETURNING" in text or b"ORDER BY" not in text else rows


class SimulatedDatabase(CrashingDatabase):
    """Sets the time at the begin of each transaction. It can crash at every commit, also at one without a write."""

    clock: Clock

    def _begin(self, tenant_id: UUID | None) -> psycopg.Connection[dict[str, Any]]:
        if self._connection is None:
            self._connection = self._connect()
            self._connection.prepare_threshold, self._connection.prepared_max = 0, 1_000
            self._connection.cursor_factory = OrderlyCursor
        text = (
            f"BEGIN; SELECT set_config('app.tenant_id', '{tenant_id or ''}', true),"
            f" set_config('simulation.now', '{self.clock.now().isoformat()}', true)"
        )
        self._connection.execute(text.encode(), prepare=False)
        return self._connection

    def _end(self, command: bytes) -> None:
        if command == b"ROLLBACK" and self._connection is not None:
            # Without psycopg, which would drop all prepared statements.
            self._connection.pgconn.exec_(command)
        else:
            super()._end(command)

    def _has_written(self) -> bool:
        return self.chaos.crash > 0

    def forget_plans(self) -> None:
        if self._connection is not None:
            self._connection.pgconn.exec_(b"DISCARD PLANS")


class SimulatedClock:
    def __init__(self, network: Network) -> None:
        self._network = network

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self._network.now)


class SimulatedFeed(CrashingFeed):
    """The key that limits writes of progress expires by the clock of Redis: the simulation deletes the key itself."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__(client, interval_ms=86_400_000)
        self._written: set[UUID] = set()

    def note_progress(self, report: Report, node: str, body: dict[str, Any]) -> str:
        self._written.add(report.node_id)
        return super().note_progress(report, node, body)

    def forget_writes(self) -> None:
        if self._written:
            self._redis.delete(*(f"task_written:{node_id}" for node_id in self._written))
        self._written.clear()


class Simulation:
    """One database and its connections, for one run after another."""

    def __init__(self, addresses: Any, client: redis.Redis) -> None:
        self.redis = client
        self.app, self.service = SimulatedDatabase(addresses.app), SimulatedDatabase(addresses.service)
        self.superuser = psycopg.connect(addresses.superuser, autocommit=True, row_factory=dict_row)
        with psycopg.connect(addresses.superuser, autocommit=True) as connection:
            tables = _tables(connection)
        self._full = " UNION ALL ".join(f"SELECT '{name}' AS name WHERE EXISTS (SELECT FROM {name})" for name in tables)

    @contextlib.contextmanager
    def world(self, seed: int, **options: Any) -> Iterator[SimulatedWorld]:
        """An empty world. Sequences and tables start empty, so that the run before has no effect."""
        self._clear()
        world = SimulatedWorld(self, self.redis, seed=seed, **options)
        with ids.drawn_from(world.draw_id):
            yield world

    def _clear(self) -> None:
        """DELETE and VACUUM of the filled tables take a quarter of the time of TRUNCATE."""
        full = [row["name"] for row in self.superuser.execute(self._full.encode()).fetchall()]
        self.superuser.execute(
            "SET session_replication_role = replica"
        )  # the order of foreign keys does not matter here
        self.superuser.execute(f"{'; '.join(f'DELETE FROM {name}' for name in full)}; {RESTART}".encode())
        self.superuser.execute(f"VACUUM {', '.join(full or ['tenant'])}".encode())
        for database in (self.app, self.service):
            database.forget_plans()
        self.redis.flushall()

    def close(self) -> None:
        self.app.close()
        self.service.close()
        self.superuser.close()


class SimulatedWorld(World):
    def __init__(self, simulation: Simulation, client: redis.Redis, *, seed: int, **options: Any) -> None:
        super().__init__(simulation, client, seed=seed, **options)
        self.seed, self._id_bits = seed, Random(f"ids {seed}")
        self.trace: list[str] = []
        # The worker of each attempt; it never changes.
        self._claims: dict[tuple[UUID, int], str] = {}
        # The reports of workers: node, attempt, kind.
        self.reported: set[tuple[str, int, str]] = set()

    def draw_id(self) -> tuple[int, int]:
        return int(self.clock.now().timestamp() * 1000), self._id_bits.getrandbits(80)

    def _make_clock(self) -> Clock:
        return SimulatedClock(self.network)

    def _make_feed(self, client: redis.Redis) -> SimulatedFeed:
        return SimulatedFeed(client)

    def _connect(self, addresses: Any) -> Any:
        addresses.app.clock = addresses.service.clock = self.clock
        return addresses.app, addresses.service, addresses.superuser

    def close(self) -> None:
        """Keep the connections, which belong to the simulation."""
        bootstrap.forget_all()

    def mirrored_slots(self) -> set[str]:
        """The slots in Redis after a pass of the watchdog."""
        self.dispatcher.reconcile(POOL)
        queue = bootstrap.fair_queues()(POOL)
        return queue.running_ids() if queue.attach() else set()

    # Time and trace

    def note(self, what: str, about: Any = None) -> None:
        self.trace.append(f"{self.network.now:.3f} {what} {json.dumps(about, default=str, sort_keys=True)}")

    def rows_left(self) -> list[str]:
        """All rows of the run, as text."""
        return [
            f"{table} {json.dumps(row, default=str, sort_keys=True)}"
            for table, order in TABLES.items()
            for row in self.rows(f"SELECT * FROM {table} ORDER BY {order}")
        ]

    def advance(self, seconds: float) -> None:
        """Move the clock; the rows stay as they are."""
        self.note("time passes", seconds)
        self.network.now += seconds
        if seconds >= WRITE_INTERVAL_S:
            self.feed.forget_writes()  # type: ignore[attr-defined]

    def receive(self, message: QueuedMessage) -> None:
        self.network.now += TICK_S
        self.note(message.destination, message.body)
        super().receive(message)

    def sweep(self, *, is_slow: bool = False) -> None:
        self.note("sweep", is_slow)
        super().sweep(is_slow=is_slow)

    def offer(self, data: Mapping[str, Any]) -> None:
        before = {id(holding) for worker in self.workers for holding in worker.held}
        super().offer(data)
        for worker in self.workers:
            for holding in worker.held:
                if id(holding) in before:
                    continue
                order = holding.order
                assert order["attempt"] == data["attempt"], "a claim of one attempt was given another"
                owner = self._claims.setdefault((UUID(order["nodeId"]), order["attempt"]), worker.card.worker_id)
                assert owner == worker.card.worker_id, "one attempt was given to two workers"
                self.note("claimed", [worker.card.worker_id, order["name"], order["attempt"]])

    def report(self, worker: Worker, holding: Holding, kind: str, **extra: Any) -> None:
        self.reported.add((holding.order["nodeId"], holding.order["attempt"], kind))
        super().report(worker, holding, kind, **extra)

    def report_call(self, result: Result) -> None:
        kind = "result" if result.outcome is Outcome.SUCCEEDED else "failure"
        self.reported.add((str(result.run_id), result.attempt, kind))
        super().report_call(result)

    def run_to_end(self, *, rounds: int = 200) -> None:
        """Without faults, every task ends by deliveries, heartbeats and sweeps alone."""
        self.chaos.stop()
        for number in range(rounds):
            self._exhaust()
            if not self.network.messages and not self.unsent() and not self.live():
                break
            self.advance(45)
            self.beat()
            self.sweep(is_slow=number % 3 == 2)
        else:
            raise AssertionError(f"not ended: {self.live()}, unsent: {self.unsent()}")
        # Tokens that were never answered time out at last.
        while tokens := self.machine.tokens():
            self.machine.time_out(tokens[0])
            self._exhaust()
        self.advance(600)

    def _exhaust(self) -> None:
        """Deliver messages and finish nodes until none is left."""
        for _ in range(STEPS_LIMIT):
            if not (self.deliver_one() or self._finish_one()):
                return
        raise AssertionError("the same messages are delivered again and again")

    def _finish_one(self) -> bool:
        for worker in self.workers:
            for holding in worker.held:
                self.finish(worker, holding)
                return True
        return False
