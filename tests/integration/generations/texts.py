"""Everything that writes texts, on real servers. Providers are scripted, and time passes by changing rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

import psycopg
import redis
from psycopg.rows import dict_row

from artiway.audit.repository import AuditLog
from artiway.delivery.feed.model import ListenerLimits
from artiway.delivery.feed.queue import RedisListeners
from artiway.generations import services, settings
from artiway.generations.feed.model import Entry, EntryId, Name
from artiway.generations.feed.queue import RedisFeed
from artiway.generations.feed.reader import FeedReader
from artiway.generations.feed.stored import StoredTexts
from artiway.generations.lifecycle import Lifecycle
from artiway.generations.model import Generation, Refusal, Requester, Wishes
from artiway.generations.providers.model import Limits
from artiway.generations.repository import PostgresGenerations, PostgresWorkerStore
from artiway.generations.service import GenerationService
from artiway.generations.steps.validate import WakeUp
from artiway.generations.sweeps import GenerationSweeps
from artiway.generations.worker import Served, TextWorker
from artiway.outbox.model import Envelope
from artiway.outbox.repository import Outbox
from artiway.platform.clock import SystemClock
from artiway.platform.database import Database
from artiway.points.model import Change, Kind
from artiway.points.repository import PostgresLedger
from artiway.points.service import PointsService
from artiway.scheduling.model import LaneChange
from artiway.scheduling.repository import PostgresSchedulingStore
from artiway.settings.model import Setting
from tests.conftest import Addresses
from tests.fakes.router import ScriptedRouter

Values = Mapping[Setting[Any], Any]


class LiveValues:
    """Settings that a test changes."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, setting: Setting[Any]) -> Any:
        return self.values.get(setting.key, setting.default)

    def set(self, setting: Setting[Any], value: Any) -> None:
        self.values[setting.key] = setting.parsed(value)


class GivenPictures:
    """Every upload exists, and `fault` is why it cannot be read. The stored ones are tested in test_vision.py."""

    def __init__(self) -> None:
        self.fault: Exception | None = None

    def check(self, tenant_id: UUID, input_id: str) -> None:
        pass

    def data_url(self, tenant_id: UUID, input_id: str) -> str:
        if self.fault is not None:
            raise self.fault
        return "data:image/jpeg;base64,/9j/"


class Texts:
    def __init__(self, addresses: Addresses, valkey: redis.Redis) -> None:
        self.addresses, self.valkey, self.clock = addresses, valkey, SystemClock()
        self.database, self.service_database = Database(addresses.app), Database(addresses.service)
        self.sent: list[Envelope] = []
        self.router, self.values, self.pictures = ScriptedRouter(), LiveValues(), GivenPictures()
        self.feed = RedisFeed(valkey)
        listeners = RedisListeners(valkey, ListenerLimits(1_000, 1_000, 1_000))
        self.points = PointsService(PostgresLedger(self.database, AuditLog()), self.clock)
        outbox = Outbox(lambda _tenant, envelopes: self.sent.extend(envelopes))
        self.store = PostgresGenerations(self.database, outbox)
        self.workers = PostgresWorkerStore(self.service_database, outbox)
        self.lanes = PostgresSchedulingStore(
            self.service_database, AuditLog(), silence_s=30, window_s=3_600, samples=20, prefetch=1
        )
        self.lifecycle = Lifecycle(self.store, self.points, self.feed, rules=lambda: settings.rules(self.values))
        self.reader = FeedReader(StoredTexts(self.store), self.feed, listeners, pause=lambda _seconds: None)
        self.catalogue = services.Services(services.load(), self.values)
        self.service = GenerationService(
            self.store,
            self.points,
            self.catalogue,
            self.lifecycle,
            self.clock,
            workers=self.workers,
            pictures=self.pictures,
            free_tokens=lambda: settings.free_tokens(self.values),
            hold_ttl_s=3_600,
        )
        self.sweeps = GenerationSweeps(
            self.workers,
            self.store,
            self.lifecycle,
            self.points,
            limits=lambda: settings.guard_limits(self.values),
            batch=100,
        )

    def close(self) -> None:
        self.database.close()
        self.service_database.close()

    # People

    def user(self, *, points: int = 0, tenant_id: UUID | None = None, tier: str = "enterprise") -> tuple[UUID, UUID]:
        tenant, user = tenant_id or uuid4(), uuid4()
        self.execute(
            "INSERT INTO tenant (tenant_id, name, tier) VALUES (%s, 'a tenant', %s) ON CONFLICT DO NOTHING",
            [tenant, tier],
        )
        self.execute(
            "INSERT INTO app_user (tenant_id, user_id, email) VALUES (%s, %s, %s)", [tenant, user, f"{user}@x.test"]
        )
        if points:
            change = Change(user, Kind.RECHARGE, points, "test", f"test:{user}")
            self.points.credit(tenant_id=tenant, change=change)
        return tenant, user

    def balance(self, who: tuple[UUID, UUID]) -> tuple[int, int]:
        account = self.points.account(tenant_id=who[0], user_id=who[1])
        return account.balance, account.frozen

    # Requests

    def submit(self, who: tuple[UUID, UUID], text: str = "a red cotton dress", **wishes: Any) -> Generation:
        made = Wishes(**{"service": "copywriting", "input": {"text": text}, "params": {}, **wishes})
        return self.service.submit(tenant_id=who[0], user_id=who[1], wishes=made)

    def get(self, generation: Generation) -> Generation:
        return self.service.get(tenant_id=generation.tenant_id, generation_id=generation.generation_id)

    def cancel(self, generation: Generation) -> Generation:
        requester = Requester(generation.user_id, may_manage=False)
        return self.service.cancel(
            tenant_id=generation.tenant_id, generation_id=generation.generation_id, requester=requester
        )

    # Work

    def worker(
        self, worker_id: str = "w1", *, router: ScriptedRouter | None = None, databases: Sequence[Database] = ()
    ) -> TextWorker:
        store, lifecycle = self.workers, self.lifecycle
        if databases:
            outbox = Outbox(lambda _tenant, envelopes: self.sent.extend(envelopes))
            points = PointsService(PostgresLedger(databases[0], AuditLog()), self.clock)
            lifecycle = Lifecycle(
                PostgresGenerations(databases[0], outbox),
                points,
                self.feed,
                rules=lambda: settings.rules(self.values),
            )
            store = PostgresWorkerStore(databases[1], outbox)
        return TextWorker(
            store,
            lifecycle,
            self.catalogue,
            router or self.router,
            self.feed,
            self.clock,
            pictures=self.pictures,
            rules=lambda: settings.rules(self.values),
            limits=lambda: settings.guard_limits(self.values),
            phases=Limits(),
            worker_id=worker_id,
            jitter=lambda: 0.5,
            cancel_check_s=0,
        )

    def work(self, lane: str = "paid_stream") -> Generation | Refusal | None:
        return self.worker().serve_one(lane)

    def serve(self, generation: Generation, *, receive_count: int = 1, remaining_s: float = 290) -> Served:
        wake_up = WakeUp(generation.lane, generation.generation_id)
        return self.worker().serve(wake_up, receive_count=receive_count, remaining_s=lambda: remaining_s)

    def claim(self, lane: str = "paid_stream") -> Generation | Refusal | None:
        """A worker that claims and is then lost."""
        from artiway.generations.steps.decide import decide

        decision = decide(lane, self.catalogue, self.router, settings.guard_limits(self.values))
        return self.workers.claim(decision, worker_id="lost", lease_s=30)

    def change_lane(self, lane: str, **change: Any) -> None:
        self.lanes.set_lane(lane, LaneChange(**change), actor_id=None)

    # Rows, events, time

    def execute(self, query: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        with psycopg.connect(self.addresses.superuser, autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(query.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def pass_time(self, seconds: float) -> int:
        """All times of the texts that have not ended lie further in the past. How many they are."""
        columns = ("created_at", "not_before", "message_at", "lease_until", "started_at")
        moved = ", ".join(f"{name} = {name} - make_interval(secs => {seconds})" for name in columns)
        return len(self.execute(f"UPDATE generation SET {moved} WHERE ended_at IS NULL RETURNING generation_id"))

    def events(self, generation: Generation) -> list[Entry]:
        return self.feed.after(generation.generation_id, EntryId(), wait_ms=0, limit=10_000)

    def names(self, generation: Generation) -> list[Name]:
        return [entry.name for entry in self.events(generation)]

    def read(self, generation: Generation) -> str:
        """The text by SPEC 12.4: all pieces since the last restart."""
        text = ""
        for entry in self.events(generation):
            if entry.name is Name.RESTART:
                text = ""
            elif entry.name in (Name.TOKEN, Name.TOKEN_BATCH):
                assert entry.offset <= len(text)  # a text that was written again begins before the end of the other
                assert entry.text.startswith(text[entry.offset :])
                text = text[: entry.offset] + entry.text
        return text

    def running(self) -> int:
        rows = self.execute("SELECT count(*) AS n FROM generation WHERE status = 'RUNNING' AND lease_until > now()")
        return int(rows[0]["n"])


Step = Callable[[Texts], object]
