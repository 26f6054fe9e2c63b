"""A story of six minutes: tasks that complete, fail, are retried and cancelled, and nodes that still wait or run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import redis
from psycopg.rows import dict_row

from artiway import bootstrap
from artiway.platform import metrics
from artiway.platform.database import Database
from artiway.series.model import MINUTE, floor
from artiway.series.repository import PostgresSeries
from artiway.series.service import SeriesService
from artiway.settings.model import Defaults, SettingValues
from tests.conftest import emptied
from tests.fakes.clock import FixedClock
from tests.integration.tasks.test_life import deliver_all, held, submit
from tests.simulation.world import MANAGER, World

SPAN = 6 * MINUTE
POOLS = ("gpu", "enterprise")
TIMES = ("ready_at", "dispatched_at", "started_at", "ended_at", "not_before")


class KnownRequests:
    """Requests and 5xx answers by minute; any other minute is not known."""

    def __init__(self, counts: Mapping[datetime, tuple[int, int]] | None = None) -> None:
        self.counts = dict(counts or {})

    def of_minute(self, minute: datetime) -> tuple[int, int] | None:
        return self.counts.get(minute)


@dataclass
class Story:
    world: World
    since: datetime
    clock: FixedClock

    @property
    def minutes(self) -> list[datetime]:
        """Of the story and one after it."""
        return [self.since + MINUTE * number for number in range(SPAN // MINUTE + 1)]

    @property
    def late(self) -> datetime:
        """When every minute of the story can be closed."""
        return self.minutes[-1] + 3 * MINUTE

    def service(
        self,
        requests: KnownRequests | None = None,
        *,
        values: SettingValues | None = None,
        dead_letters: Callable[[], Mapping[str, int]] = dict,
    ) -> SeriesService:
        store = PostgresSeries(
            bootstrap.service_database(), bootstrap.service_database(), pools=POOLS, beat_s=lambda: 10
        )
        return SeriesService(store, requests or KnownRequests(), dead_letters, values or Defaults(), self.clock)

    def begin(self) -> None:
        """The passes begin with the story."""
        for table in ("series_minute", "series_day", "series_pass"):
            self.world.superuser.execute(f"DELETE FROM {table}".encode())
        self.world.superuser.execute("INSERT INTO series_pass (closed_until) VALUES (%s)", [self.since])

    def close_all(self, service: SeriesService | None = None) -> SeriesService:
        """One pass each minute, as in production."""
        service = service or self.service()
        self.begin()
        for minute in self.minutes:
            self.clock.set(minute + 2 * MINUTE)
            assert service.close_minutes()["closed"] == 1
        self.clock.set(self.late)
        return service

    def stored(self, name: str) -> list[dict[str, Any]]:
        return self.world.rows("SELECT * FROM series_minute WHERE name = %s ORDER BY minute, labels", name)


@pytest.fixture(scope="module")
def played(worker_addresses, valkey_url) -> Iterator[Story]:
    """Made once: the tests read the tables of tasks and write only the series."""
    with redis.Redis.from_url(valkey_url, decode_responses=True) as client:
        world = World(emptied(worker_addresses), client, slots=5)
        since = floor(datetime.now(UTC), MINUTE) - SPAN - 10 * MINUTE
        _play(world)
        _stretch(world, since)
        yield Story(world, since, FixedClock(since))
        world.close()


@pytest.fixture
def story(played: Story) -> Story:
    played.clock.set(played.since)
    for table in ("series_minute", "series_day", "series_pass"):
        played.world.superuser.execute(f"DELETE FROM {table}".encode())
    return played


class Bare:
    """A database without tasks, to which nodes are added as if they had completed in one minute."""

    def __init__(self, superuser: psycopg.Connection[dict[str, Any]], database: Database) -> None:
        self._superuser, self._database = superuser, database
        self.minute = floor(datetime.now(UTC), MINUTE) - 10 * MINUTE

    def rows(self, query: str) -> list[dict[str, Any]]:
        return self._superuser.execute(query.encode()).fetchall()

    def fill(self, busy: Sequence[tuple[str, int]]) -> None:
        """One tenant with one node for each: its pool, and how long it ran in ms."""
        self.empty()
        self._superuser.execute("INSERT INTO series_pass (closed_until) VALUES (%s)", [self.minute])
        for pool, ms in busy:
            tenant_id, node_id = uuid4(), uuid4()
            lane = "enterprise_exclusive" if pool == "enterprise" else "vip_short"
            self._superuser.execute(
                "INSERT INTO task_node (tenant_id, node_id, task_id, user_id, position, name, type, step, lane, pool,"
                " cost_us, is_result, in_degree, status, ended_at) VALUES"
                " (%s, %s, %s, %s, 0, 'n', 'cutout', 'crop', %s, %s, 1, true, 0, 'COMPLETED', now())",
                [tenant_id, node_id, uuid4(), uuid4(), lane, pool],
            )
            changes = [("PENDING", "QUEUED", 0), ("QUEUED", "PROCESSING", 0), ("PROCESSING", "COMPLETED", ms)]
            for version, (before, after, at_ms) in enumerate(changes):
                self._superuser.execute(
                    "INSERT INTO node_history VALUES (%s, %s, %s, %s, %s, 1, 'w', NULL, %s)",
                    [tenant_id, node_id, version, before, after, self._at(at_ms)],
                )

    def _at(self, ms: int) -> datetime:
        """The last microsecond of the minute belongs to it."""
        return self.minute + min(timedelta(milliseconds=ms), MINUTE - timedelta(microseconds=1))

    def service(self, values: SettingValues) -> SeriesService:
        store = PostgresSeries(self._database, self._database, pools=POOLS, beat_s=lambda: 10)
        return SeriesService(store, KnownRequests(), dict, values, FixedClock(self.minute + 2 * MINUTE))

    def empty(self) -> None:
        for table in ("series_minute", "series_day", "series_pass", "node_history", "task_node"):
            self._superuser.execute(f"DELETE FROM {table}".encode())


@pytest.fixture
def bare(addresses, service_database) -> Iterator[Bare]:
    with psycopg.connect(addresses.superuser, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("SET session_replication_role = replica")  # no triggers, no foreign keys
        bare = Bare(connection, service_database)
        yield bare
        bare.empty()


def _play(world: World) -> None:
    worker = world.worker(slots=5)
    tenants = [world.tenant("vip") for _ in range(3)]
    for number in range(9):
        submit(world, tenants[number % 3], ("cutout", "style", "crop")[number % 3])
    for number in range(12):
        deliver_all(world)
        if not worker.held:
            break
        if number % 4 == 3:
            world.fail(worker, worker.held[0], is_retryable=number == 3)
        else:
            world.finish(worker, worker.held[0])
    deliver_all(world)
    world.run_to_end()
    photo = submit(world, tenants[0], count=3)
    deliver_all(world)
    world.finish(*held(world, "cutout"))
    for number in range(9):
        submit(world, tenants[number % 3], "style")
    deliver_all(world)
    world.tasks.cancel(tenant_id=tenants[0][0], task_id=photo.task_id, requester=MANAGER)
    deliver_all(world)


def _stretch(world: World, since: datetime) -> None:
    """Map all times of the nodes to the minutes of the story. The order of events does not change."""
    (bounds,) = world.rows("SELECT min(changed_at) AS first, max(changed_at) AS last FROM node_history")
    factor = (SPAN - timedelta(seconds=20)) / (bounds["last"] - bounds["first"])
    named = {"first": bounds["first"], "since": since + timedelta(seconds=7), "factor": factor}
    moved = "%(since)s::timestamptz + ({} - %(first)s::timestamptz) * %(factor)s::float8"
    world.superuser.execute(f"UPDATE node_history SET changed_at = {moved.format('changed_at')}".encode(), named)
    # The columns repeat the history: the last time of each kind, while the node has it.
    for column, condition in {
        "ready_at": "from_status = 'PENDING' AND to_status = 'QUEUED'",
        "started_at": "to_status = 'PROCESSING'",
        "ended_at": "to_status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED')",
    }.items():
        world.superuser.execute(
            f"UPDATE task_node AS node SET {column} = (SELECT max(changed_at) FROM node_history AS history"
            f" WHERE history.node_id = node.node_id AND {condition}) WHERE {column} IS NOT NULL".encode()
        )
    world.superuser.execute("UPDATE worker SET registered_at = %s, beat_at = %s", [since, since + 2 * SPAN])


@pytest.fixture
def emitted(monkeypatch) -> dict[tuple[str, str], float]:
    """The newest burn rate by objective and windows."""
    found: dict[tuple[str, str], float] = {}

    def emit(name: str, value: float, _unit: str = "Count", **dimensions: str) -> None:
        if name == "BurnRate":
            found[dimensions["objective"], dimensions["windows"]] = value

    monkeypatch.setattr(metrics, "emit", emit)
    return found
