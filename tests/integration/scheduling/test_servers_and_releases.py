"""Real servers fail over, restart, run full and change releases: the queue goes on with what its keys hold."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
import redis

from artiway.platform.redis import RedisAway
from artiway.scheduling import scripts
from artiway.scheduling.model import (
    Cancelled,
    Completion,
    Ended,
    NewerLayout,
    Node,
    Pool,
    QueueMemoryFull,
    Running,
    Snapshot,
    StaleEpoch,
    TenantPolicy,
    Track,
)
from artiway.scheduling.queue import FairQueue
from local.servers import Server, free_port, running, start_valkey
from tests.conftest import soaked
from tests.integration.scheduling.support import LEASE_MS, Twins, node, nodes

T = TypeVar("T")
POOL = Pool(slots={"cutout": 20, "model": 20})
TENANTS = [TenantPolicy(f"t{i}", 1 + i % 3, cap=4 if i % 4 == 0 else None) for i in range(8)]
TRACKS = [Track("cutout", "vip_short"), Track("model", "vip_short", "sdxl")]


def client_of(server: Server) -> redis.Redis:
    return redis.Redis.from_url(server.url, decode_responses=True, socket_timeout=5, socket_connect_timeout=5)


class Load:
    """A scheduler with its database: it writes down each step as PostgreSQL would, before or after Redis's."""

    def __init__(self, seed: int) -> None:
        self.dice, self.names = random.Random(seed), itertools.count()
        self.waiting: dict[str, Node] = {}
        self.running: dict[str, Running] = {}
        self.rebuilds = self.calls = 0

    def snapshot(self) -> Snapshot:
        return Snapshot(POOL, TENANTS, running=list(self.running.values()), waiting=list(self.waiting.values()))

    def attach(self, queue: FairQueue) -> None:
        if not queue.attach():
            self.rebuilds += 1
            queue.rebuild(self.snapshot(), now_ms=0)

    def step(self, queue: FairQueue) -> None:
        """Nodes become ready, nodes run, nodes end."""
        batch = [
            Node(f"n{next(self.names)}", f"t{self.dice.randrange(8)}", f"u{self.dice.randrange(2)}", track, 1_000_000)
            for track in self.dice.choices(TRACKS, k=5)
        ]
        self.waiting |= {one.node_id: one for one in batch}
        queue.enqueue(batch, now_ms=0)
        for one in queue.dispatch(6, now_ms=0):
            if self.waiting.pop(one.node.node_id, None):
                self.running[one.node.node_id] = Running(one.node, one.charged_us)
        ends = self.dice.sample(sorted(self.running), k=min(5, len(self.running)))
        for node_id in ends:
            del self.running[node_id]
        queue.complete([Completion(node_id) for node_id in ends], now_ms=0, confirmed=list(self.running))
        self.calls += 3

    def until_away(self, queue: FairQueue) -> None:
        while True:
            try:
                self.step(queue)
            except RedisAway:
                return

    def compare(self, queue: FairQueue) -> int:
        """Bring Redis in line with the database. Answers how many nodes differed."""
        held = {one.node_id for one in queue.snapshot().waiting}
        stray, surplus = sorted(held - self.waiting.keys()), sorted(queue.running_ids() - self.running.keys())
        queue.cancel(stray, now_ms=0)
        queue.complete([Completion(node_id, 0) for node_id in surplus], now_ms=0)
        missing = [self.running[node_id] for node_id in sorted(self.running.keys() - queue.running_ids())]
        queue.adopt(missing, now_ms=0)
        lost = [one for node_id, one in self.waiting.items() if node_id not in held]
        queue.enqueue(lost, now_ms=0)
        assert {one.node_id for one in queue.snapshot().waiting} == self.waiting.keys()
        assert queue.running_ids() == self.running.keys()
        check_whole(queue)
        return len(stray) + len(surplus) + len(missing) + len(lost)

    def drain(self, queue: FairQueue) -> None:
        """Every node goes exactly once."""
        queue.complete([Completion(node_id) for node_id in self.running], now_ms=0)
        gone: list[str] = []
        while chosen := queue.dispatch(50, now_ms=0):
            gone += [one.node.node_id for one in chosen]
            queue.complete([Completion(one.node.node_id) for one in chosen], now_ms=0)
        assert sorted(gone) == sorted(self.waiting)
        check_whole(queue)


def check_whole(queue: FairQueue) -> None:
    """The keys agree with each other: counts, places, members and heads."""
    client, view, snapshot = queue._client, queue._view(), queue.snapshot()
    waiting, sizes = snapshot.waiting, {}
    for key in client.scan_iter(f"{queue._part('nodes:')}*", count=1000):
        sizes[key] = client.zcard(key)
    assert sum(sizes.values()) == len(waiting)
    assert queue.waiting_by_track() == {
        state.track: sum(one.track == state.track for one in waiting) for state in view.tracks.values()
    }
    assert sum(queue.running_by_track().values()) == len(snapshot.running)
    rows = queue._tenant_rows(queue.tenant_ids())
    for row in rows:
        name = row.policy.tenant_id
        works = queue._works([name], list(view.tracks))[name]
        assert sum(work.waiting for work in works.values()) == sum(one.tenant_id == name for one in waiting)
        assert row.running == sum(run.node.tenant_id == name for run in snapshot.running)
        assert row.heads == sum(bool(work.turn) for work in works.values())
        assert row.heads == 0 if row.is_capped else row.heads == len(works)
    heads = sum(client.zcard(queue._part(f"heads:{index}")) for index in view.tracks)
    assert heads == sum(row.heads for row in rows)


def wait_for(is_true: Callable[[], object]) -> None:
    for _ in range(1500):
        if is_true():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come to pass")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(soaked(2)))
def test_promoted_replica_goes_on(tmp_path: Path, seed: int) -> None:
    load = Load(seed)
    with (
        running(start_valkey(tmp_path / "primary", free_port())) as primary,
        running(start_valkey(tmp_path / "replica", free_port())) as replica,
        client_of(primary) as first,
        client_of(replica) as second,
    ):
        second.replicaof("127.0.0.1", str(primary.port))
        wait_for(lambda: second.info("replication")["master_link_status"] == "up")
        queue = FairQueue(first, "gpu")
        load.attach(queue)
        scheduler = threading.Thread(target=load.until_away, args=(queue,))
        scheduler.start()
        wait_for(lambda: load.calls > 100)
        primary.kill()
        scheduler.join()
        with pytest.raises(RedisAway):
            FairQueue(second, "gpu").rebuild(Snapshot(POOL), now_ms=0)  # a replica is not written to
        second.replicaof("NO", "ONE")
        successor = FairQueue(second, "gpu")
        load.attach(successor)
        assert successor.epoch == queue.epoch
        load.compare(successor)
        load.step(successor)
        load.drain(successor)
        assert load.rebuilds == 1


@pytest.mark.soak
def test_killed_server_restarts_with_its_queue(tmp_path: Path) -> None:
    """AOF: each script is there whole or not at all. Fifty times in `make soak`."""
    load, port = Load(1), free_port()
    for _ in range(5 if soaked(1) == 1 else 50):
        with running(start_valkey(tmp_path, port)) as server, client_of(server) as client:
            wait_for(lambda client=client: answers(client))
            queue = FairQueue(client, "gpu")
            load.attach(queue)
            load.compare(queue)
            before = load.calls
            scheduler = threading.Thread(target=load.until_away, args=(queue,))
            scheduler.start()
            wait_for(lambda before=before: load.calls > before + load.dice.randrange(3, 40))
            server.kill()
            scheduler.join()
    with running(start_valkey(tmp_path, port)) as server, client_of(server) as client:
        wait_for(lambda: answers(client))
        queue = FairQueue(client, "gpu")
        load.attach(queue)
        load.compare(queue)
        load.drain(queue)
    assert load.rebuilds == 1


def answers(client: redis.Redis) -> bool:
    """Not while it reads its AOF."""
    try:
        return bool(client.ping())
    except redis.exceptions.ConnectionError:
        return False


class TestReleases:
    def test_same_layout_rebuilds_nothing(self, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two texts of the scripts work on one queue in turns, and both are right."""
        twins = Twins(valkey, Snapshot(POOL, TENANTS))
        epoch, original, dice = twins.queue.epoch, scripts.script, random.Random(3)

        def other(verb: str) -> scripts.Script:
            text = original(verb).text + "\n-- another release\n"
            return scripts.Script(text, valkey.script_load(text))

        assert other("enqueue").digest != original("enqueue").digest
        running_now: list = []
        valkey.config_resetstat()
        for call in range(1000):
            monkeypatch.setattr(scripts, "script", other if call % 2 else original)
            if call % 3 == 0:
                twins.enqueue([node(f"n{call}-{i}", f"t{dice.randrange(8)}", dice.randint(1, 9)) for i in range(3)])
            elif call % 3 == 1:
                running_now += twins.dispatch(3)
            else:
                running_now = twins.end(running_now, dispatch=3)
            assert twins.queue.attach()
        twins.check()
        assert twins.queue.epoch == epoch
        assert "cmdstat_rename" not in valkey.info("commandstats")  # which only a commit calls

    def test_newer_layout_rebuilds_once(self, valkey: redis.Redis) -> None:
        load, rebuilds, refused = Load(5), {1: 0, 2: 0}, 0
        older, newer = FairQueue(valkey, "gpu", layout=1), FairQueue(valkey, "gpu", layout=2)
        older.rebuild(load.snapshot(), now_ms=0)
        for _ in range(20):
            load.step(older)
        for turn in range(100):
            queue, layout = (newer, 2) if turn % 2 else (older, 1)
            try:
                load.step(queue)
            except StaleEpoch:
                try:
                    if not queue.attach():
                        rebuilds[layout] += 1
                        queue.rebuild(load.snapshot(), now_ms=0)
                except NewerLayout:
                    refused += 1
        assert rebuilds == {1: 0, 2: 1}
        assert refused == 49
        with pytest.raises(NewerLayout) as error:
            older.rebuild(load.snapshot(), now_ms=0)
        assert (error.value.code, error.value.status, error.value.retry_after_s) == ("SCHED_503_NEWER_LAYOUT", 503, 2)
        load.compare(newer)
        load.drain(newer)

    def test_older_release_leaves_a_newer_rebuild_alone(self, valkey: redis.Redis) -> None:
        """Redis is empty, and the newer release has begun to fill it."""
        older, newer = FairQueue(valkey, "gpu", layout=1), FairQueue(valkey, "gpu", layout=2)

        class Meanwhile(list[Node]):
            def __iter__(self) -> Iterator[Node]:
                with pytest.raises(NewerLayout):
                    older.rebuild(Snapshot(POOL, TENANTS), now_ms=0)
                return super().__iter__()

        newer.rebuild(Snapshot(POOL, TENANTS, waiting=Meanwhile(nodes("n", 3, "t1", 1))), now_ms=0)
        assert len(newer.dispatch(9, now_ms=0)) == 3


@pytest.fixture
def own_client(tmp_path: Path) -> Iterator[redis.Redis]:
    """A server whose settings a test may change."""
    with running(start_valkey(tmp_path, free_port(), is_durable=False)) as server, client_of(server) as client:
        yield client


def dumped(client: redis.Redis) -> dict[str, bytes]:
    keys = sorted(client.scan_iter(count=1000))
    raw = redis.Redis(connection_pool=redis.ConnectionPool.from_url(f"redis://127.0.0.1:{port_of(client)}"))
    return {key: raw.dump(key) for key in keys}


def port_of(client: redis.Redis) -> int:
    return int(client.connection_pool.connection_kwargs["port"])


def test_full_memory_refuses_only_enqueue(own_client: redis.Redis) -> None:
    queue = FairQueue(own_client, "gpu", lease_ms=LEASE_MS)
    queue.rebuild(Snapshot(POOL, TENANTS, waiting=nodes("n", 300, "t1", 1)), now_ms=0)
    queue.dispatch(10, now_ms=0)
    own_client.config_set("maxmemory", 1_000_000)
    before = dumped(own_client)
    with pytest.raises(QueueMemoryFull) as refused:
        queue.enqueue(nodes("more", 10, "t2", 1), now_ms=0)
    assert (refused.value.code, refused.value.status, refused.value.retry_after_s) == ("SCHED_503_QUEUE_MEMORY", 503, 2)
    with pytest.raises(QueueMemoryFull):
        queue.adopt([Running(node("held", "t2", 1), 1)], now_ms=0)
    assert dumped(own_client) == before
    assert queue.explain("n200", now_ms=0).detail["before_of_user"] == 190
    assert queue.cancel(["n200"], now_ms=0) == [Cancelled.CANCELLED]
    settled = queue.complete([Completion("n0")], now_ms=0, dispatch=1, confirmed=["n1"])
    assert (settled.ended, len(settled.dispatched)) == ((Ended.ENDED,), 1)
    assert len(queue.reclaim(now_ms=LEASE_MS)) == 9
    queue.pause_lane("vip_short", now_ms=0)
    queue.resume_lane("vip_short", now_ms=0)
    queue.set_tenants([TenantPolicy("t1", 2)], now_ms=0)
    check_whole(queue)
    own_client.config_set("maxmemory", 0)
    queue.enqueue(nodes("more", 10, "t2", 1), now_ms=0)
    check_whole(queue)


def test_rebuild_without_memory_leaves_nothing(own_client: redis.Redis) -> None:
    """The queue in force stays as it is, and the next rebuild finds all memory free."""
    queue, other = FairQueue(own_client, "gpu"), FairQueue(own_client, "gpu")
    queue.rebuild(Snapshot(POOL, TENANTS, waiting=nodes("n", 3_000, "t1", 1)), now_ms=0)
    before = dumped(own_client)
    own_client.config_set("maxmemory", own_client.info("memory")["used_memory"] + 300_000)
    with pytest.raises(QueueMemoryFull):
        other.rebuild(Snapshot(POOL, TENANTS, waiting=nodes("n", 30_000, "t1", 1)), now_ms=0)
    assert dumped(own_client) == before
    own_client.config_set("maxmemory", 0)
    other.rebuild(Snapshot(POOL, TENANTS, waiting=nodes("n", 10, "t1", 1)), now_ms=0)
    assert sum(other.waiting_by_track().values()) == 10


def test_script_killed_before_its_first_write(own_client: redis.Redis) -> None:
    """All arguments are checked first, so that is where a call that is too large can be stopped."""
    own_client.config_set("busy-reply-threshold", 1)
    queue = FairQueue(own_client, "gpu")
    queue.rebuild(Snapshot(POOL, TENANTS, waiting=nodes("n", 5, "t1", 1)), now_ms=0)
    before, failures = dumped(own_client), []
    lines = "\n".join(f"x{i}|t1|u|cutout|vip_short|||1000000|1" for i in range(300_000))

    def call() -> None:
        with client_of_port(port_of(own_client)) as client:
            huge = FairQueue(client, "gpu")
            huge._epoch = queue.epoch
            try:
                huge._run("enqueue", 0, "", lines, "", 0, LEASE_MS)
            except RedisAway as error:
                failures.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    wait_for(lambda: is_killed(own_client) or not caller.is_alive())
    caller.join()
    assert len(failures) == 1
    assert dumped(own_client) == before
    assert len(queue.dispatch(9, now_ms=0)) == 5


def client_of_port(port: int) -> redis.Redis:
    return redis.Redis(port=port, decode_responses=True, socket_timeout=60)


def is_killed(client: redis.Redis) -> bool:
    try:
        return bool(client.script_kill())
    except redis.exceptions.ResponseError:  # nothing runs yet
        return False
