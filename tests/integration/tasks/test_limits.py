"""Limits of uploads that no task uses, and of requests that wait for events."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import pytest

from artiway.audit.repository import AuditLog
from artiway.delivery.feed.model import EntryId, ListenerLimits, TooManyListeners
from artiway.delivery.feed.queue import RedisFeed, RedisListeners
from artiway.delivery.feed.service import FeedService
from artiway.delivery.uploads.model import OpenLimits, TooManyUploads
from artiway.delivery.uploads.repository import PostgresUploads
from artiway.delivery.uploads.service import Bounds, UploadService
from artiway.platform import redis as platform_redis
from artiway.platform.database import Database
from local.servers import free_port
from tests.fakes.users import add_users
from tests.integration.tasks.test_delivery import PICTURES, Objects, png
from tests.integration.tasks.test_life import submit

PER_USER, PER_TENANT = 3, 5
BOUNDS = Bounds(1_000, 1_000_000, 4_000, 900, 600, 900, OpenLimits(PER_USER, PER_TENANT))


class TestUploads:
    @pytest.fixture
    def objects(self):
        return Objects()

    @pytest.fixture
    def uploads(self, world, objects):
        return UploadService(
            PostgresUploads(world.database, AuditLog()),
            objects,
            PICTURES,
            world.clock,
            lambda: BOUNDS,
            originals=PICTURES,
        )

    @pytest.fixture
    def tenant(self, world):
        return world.tenant()

    @staticmethod
    def make(uploads, tenant_id, user_id):
        return uploads.ticket(tenant_id=tenant_id, user_id=user_id, content_type="image/png", size=100)

    @staticmethod
    def stored(world, tenant):
        return len(world.rows("SELECT FROM upload WHERE tenant_id = %s", tenant[0]))

    def test_user_at_the_limit_adds_no_upload(self, world, uploads, tenant):
        for _ in range(PER_USER):
            self.make(uploads, *tenant)
        with pytest.raises(TooManyUploads) as refusal:
            self.make(uploads, *tenant)
        assert (refusal.value.code, refusal.value.status) == ("UPLOAD_409_TOO_MANY", 409)
        assert refusal.value.details == {"limit": PER_USER, "of": "user"}
        assert self.stored(world, tenant) == PER_USER
        self.make(uploads, *world.tenant())

    def test_tenant_at_the_limit_adds_no_upload(self, world, addresses, uploads, tenant):
        colleagues = [uuid4(), uuid4()]
        add_users(addresses.superuser, tenant[0], colleagues)
        for user_id in (tenant[1], tenant[1], tenant[1], colleagues[0], colleagues[0]):
            self.make(uploads, tenant[0], user_id)
        with pytest.raises(TooManyUploads) as refusal:
            self.make(uploads, tenant[0], colleagues[1])
        assert refusal.value.details == {"limit": PER_TENANT, "of": "tenant"}
        assert self.stored(world, tenant) == PER_TENANT

    def test_used_and_expired_uploads_are_not_counted(self, world, uploads, objects, tenant):
        for _ in range(2):
            ticket = self.make(uploads, *tenant)
            objects.stored[ticket.url.removeprefix("s3://")] = png()
            uploads.inspect(tenant[0], [ticket.input_id])
        over = self.make(uploads, *tenant)
        world.superuser.execute("UPDATE upload SET expires_at = now() WHERE input_id = %s", [over.input_id])
        for _ in range(PER_USER):
            self.make(uploads, *tenant)
        with pytest.raises(TooManyUploads):
            self.make(uploads, *tenant)

    def test_concurrent_requests_stay_within_the_limit(self, world, addresses, uploads, tenant):
        def waits_for_lock():
            query = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            return bool(world.rows(query))

        with contextlib.closing(Database(addresses.app)) as database, ThreadPoolExecutor(1) as pool:
            second = UploadService(
                PostgresUploads(database, AuditLog()),
                Objects(),
                PICTURES,
                world.clock,
                lambda: BOUNDS,
                originals=PICTURES,
            )
            with world.database.tenant_transaction(tenant[0]):
                for _ in range(PER_USER):
                    self.make(uploads, *tenant)
                other = pool.submit(self.make, second, *tenant)
                while not (other.done() or waits_for_lock()):
                    time.sleep(0.001)
            with pytest.raises(TooManyUploads):
                other.result(60)
        assert self.stored(world, tenant) == PER_USER


class TestListeners:
    """Two streams of a user, three of a tenant and five of the platform may be open."""

    @pytest.fixture
    def tenant_id(self):
        return uuid4()

    @pytest.fixture
    def user_id(self):
        return uuid4()

    @pytest.fixture
    def listeners(self, valkey):
        valkey.delete("task_listeners:all")
        return RedisListeners(valkey, ListenerLimits(user=2, tenant=3, platform=5))

    @pytest.fixture
    def lease(self, listeners, tenant_id, user_id):
        """Takes a lease that is held until the test ends."""
        with contextlib.ExitStack() as held:
            yield lambda tenant_id=tenant_id, user_id=user_id, ttl_ms=60_000: held.enter_context(
                listeners.lease(tenant_id=tenant_id, user_id=user_id, ttl_ms=ttl_ms)
            )

    @pytest.mark.parametrize(("scope", "limit"), [("tenant", 3), ("platform", 5)])
    def test_request_above_a_limit_is_refused(self, valkey, lease, tenant_id, scope, limit):
        same = {"tenant": {"user_id": uuid4}, "platform": {"tenant_id": uuid4, "user_id": uuid4}}[scope]
        for number in range(limit):
            lease(**{name: make() for name, make in same.items()}, ttl_ms=60_000 - 1_000 * number)
        with pytest.raises(TooManyListeners) as refusal:
            lease(**{name: make() for name, make in same.items()})
        assert (refusal.value.code, refusal.value.status) == ("TASK_429_LISTENERS", 429)
        assert refusal.value.details == {"scope": scope, "limit": limit}
        assert 59 - limit <= refusal.value.retry_after_s <= 61 - limit
        assert valkey.zcard("task_listeners:all") == limit

    def test_refused_request_takes_no_lease(self, valkey, lease, tenant_id):
        for _ in range(3):
            lease(user_id=uuid4())
        with pytest.raises(TooManyListeners):
            lease()
        assert valkey.zcard(f"task_listeners:tenant:{tenant_id}") == 3
        assert valkey.zcard("task_listeners:all") == 3

    def test_user_above_the_limit_replaces_the_oldest(self, valkey, lease, tenant_id, user_id):
        oldest, second = lease(ttl_ms=50_000), lease()
        third = lease()
        assert [one.is_held() for one in (oldest, second, third)] == [False, True, True]
        for group in (f"user:{user_id}", f"tenant:{tenant_id}", "all"):
            assert valkey.zcard(f"task_listeners:{group}") == 2

    def test_replacement_needs_no_room_of_the_tenant(self, lease):
        lease(user_id=uuid4())
        oldest = lease(ttl_ms=50_000)
        lease()
        assert lease().is_held()
        assert not oldest.is_held()

    def test_ended_wait_frees_every_group(self, valkey, listeners, tenant_id, user_id):
        for _ in range(6):
            with listeners.lease(tenant_id=tenant_id, user_id=user_id, ttl_ms=60_000) as lease:
                assert lease.is_counted
        for group in (f"user:{user_id}", f"tenant:{tenant_id}", "all"):
            assert not valkey.exists(f"task_listeners:{group}")

    def test_lease_of_crashed_function_expires(self, valkey, listeners, tenant_id, user_id):
        seconds, _ = valkey.time()
        dead = {"one": seconds * 1_000 - 1, "two": seconds * 1_000 - 2, "alive": (seconds + 60) * 1_000}
        valkey.zadd(f"task_listeners:user:{user_id}", dead)
        with listeners.lease(tenant_id=tenant_id, user_id=user_id, ttl_ms=60_000):
            assert valkey.zcard(f"task_listeners:user:{user_id}") == 2
        assert valkey.zrange(f"task_listeners:user:{user_id}", 0, -1) == ["alive"]

    def test_key_expires_with_its_last_lease(self, valkey, lease, user_id):
        lease()
        lease(ttl_ms=5_000)
        assert 50_000 < valkey.pttl(f"task_listeners:user:{user_id}") <= 60_000

    def test_concurrent_requests_cannot_pass_the_limit(self, valkey, listeners, tenant_id):
        start = Barrier(8)
        leases = [listeners.lease(tenant_id=tenant_id, user_id=uuid4(), ttl_ms=60_000) for _ in range(8)]

        def enter(lease):
            start.wait()
            try:
                return lease.__enter__().is_counted
            except TooManyListeners:
                return False

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(enter, leases)) == 3
        assert valkey.zcard(f"task_listeners:tenant:{tenant_id}") == 3

    def test_nobody_is_counted_without_redis(self, tenant_id, user_id):
        with contextlib.closing(platform_redis.connect(f"redis://127.0.0.1:{free_port()}/0", timeout_s=0.1)) as away:
            listeners = RedisListeners(away, ListenerLimits(1, 1, 1))
            for _ in range(2):
                with listeners.lease(tenant_id=tenant_id, user_id=user_id, ttl_ms=60_000) as lease:
                    assert not lease.is_counted
                    assert lease.is_held()

    def test_full_redis_refuses_no_request(self, valkey, lease):
        valkey.config_set("maxmemory", "1")
        try:
            lease()
        finally:
            valkey.config_set("maxmemory", "0")


class Time:
    """Passes only while a stream waits."""

    def __init__(self):
        self.ms = 0.0

    def pause(self, seconds):
        self.ms += seconds * 1_000


class TestStreams:
    @pytest.fixture
    def task(self, world):
        tenant_id, user_id = world.tenant()
        task = submit(world, (tenant_id, user_id), "style")
        yield {"tenant_id": tenant_id, "user_id": user_id, "task_id": task.task_id, "life_ms": 60_000}
        world.worker()
        world.run_to_end()

    @pytest.fixture
    def away(self):
        """A Redis that cannot be reached, so that each wait is a pause."""
        with contextlib.closing(platform_redis.connect(f"redis://127.0.0.1:{free_port()}/0", timeout_s=0.1)) as client:
            yield client

    @staticmethod
    def feed(world, redis, clock, **limits):
        limits = ListenerLimits(**{"user": 1, "tenant": 5, "platform": 5} | limits)
        feed = RedisFeed(redis, interval_ms=0)
        return FeedService(world.store, feed, RedisListeners(redis, limits), pause=clock.pause, now_ms=lambda: clock.ms)

    def test_uncounted_stream_lasts_two_seconds(self, world, task, away):
        """The function is free again soon, whatever the client asked for."""
        clock = Time()
        frames = list(self.feed(world, away, clock).frames(**task, last=EntryId()))
        assert frames[0] == "retry: 200\n\n"
        assert [frame.split("\n")[:2] for frame in frames[1:]] == [["id: 1-0", "event: queued"]]
        assert clock.ms == 2_000

    def test_quiet_stream_beats_and_ends(self, world, task, away, valkey):
        clock = Time()
        feed = FeedService(
            world.store,
            RedisFeed(away, interval_ms=0),
            RedisListeners(valkey, ListenerLimits(1, 1, 1)),
            pause=clock.pause,
            now_ms=lambda: clock.ms,
        )
        frames = list(feed.frames(**task, last=EntryId(1)))
        assert frames == ["retry: 200\n\n", *[": heartbeat\n\n"] * 6]
        assert clock.ms == 60_000
        assert not valkey.exists("task_listeners:all")

    def test_available_events_need_no_lease(self, world, task, valkey):
        feed = self.feed(world, valkey, Time(), tenant=1)
        with feed._listeners.lease(tenant_id=task["tenant_id"], user_id=uuid4(), ttl_ms=60_000):
            frames = list(feed.frames(**task, last=EntryId()))
            assert "event: queued" in frames[-1]
            with pytest.raises(TooManyListeners):
                next(feed.frames(**task, last=EntryId(1)))

    def test_replaced_stream_ends_with_longer_pause(self, world, task, away, valkey):
        clock = Time()
        feed = self.feed(world, away, clock)
        feed._listeners = RedisListeners(valkey, ListenerLimits(1, 5, 5))
        frames = feed.frames(**task, last=EntryId(1))
        next(frames)
        with feed._listeners.lease(tenant_id=task["tenant_id"], user_id=task["user_id"], ttl_ms=60_000):
            assert list(frames) == ["retry: 5000\n\n"]
        assert clock.ms == 1_000

    def test_stream_of_ended_task_ends_at_once(self, world, valkey):
        tenant = world.tenant()
        task = submit(world, tenant, "style")
        world.worker()
        world.run_to_end()
        asked = {"tenant_id": tenant[0], "user_id": tenant[1], "task_id": task.task_id, "life_ms": 60_000}
        clock = Time()
        frames = list(self.feed(world, valkey, clock).frames(**asked, last=EntryId()))
        events = [frame for frame in frames if frame.startswith("id:")]
        assert "event: settled" in events[-1]
        assert frames[-1] == "retry: 60000\n\n"
        last = EntryId.parse(events[-1].split("\n")[0].removeprefix("id: "))
        assert list(self.feed(world, valkey, clock).frames(**asked, last=last)) == ["retry: 60000\n\n"]
