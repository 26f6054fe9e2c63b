"""A Redis at its memory limit, and a queue of a newer release: nothing is lost, and nothing is rebuilt in vain."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest

from artiway import bootstrap
from artiway.scheduling.dispatcher import Dispatcher
from artiway.scheduling.keys import LAYOUT, Keys
from artiway.scheduling.model import NewerLayout, QueueMemoryFull
from artiway.scheduling.queue import FairQueue
from artiway.tasks.model import ReleasedSlot
from tests.fakes.nodes import Yard
from tests.integration.payments.environment import http_event, load_function

pytestmark = pytest.mark.breaks_invariants(
    "no task is paid for, and no picture is made", "live_tasks_have_holds", "artefacts_have_nodes"
)


@pytest.fixture
def yard(addresses) -> Iterator[Yard]:
    with contextlib.closing(Yard(addresses.superuser)) as yard:
        yield yard


@pytest.fixture
def scheduler(monkeypatch, addresses, valkey, valkey_url) -> Iterator[Dispatcher]:
    """The scheduler of `bootstrap`, with its real connections."""
    monkeypatch.setenv("ARTIWAY_DATABASE_URL", addresses.app)
    monkeypatch.setenv("ARTIWAY_SERVICE_DATABASE_URL", addresses.service)
    monkeypatch.setenv("ARTIWAY_REDIS_URL", valkey_url)
    monkeypatch.setenv("ARTIWAY_SCHEDULER_PREFETCH", "0")
    bootstrap.forget_all()
    yield bootstrap.scheduler()
    for made in (bootstrap.database(), bootstrap.service_database(), bootstrap.redis()):
        made.close()
    bootstrap.forget_all()


def consume(*node_ids) -> list[str]:
    """Deliver ready messages to the function. Returns those that SQS would deliver again."""
    bodies = [{"type": "ready", "data": {"nodeId": str(node_id)}} for node_id in node_ids]
    records = [
        {"messageId": str(node_id), "body": json.dumps(body)} for node_id, body in zip(node_ids, bodies, strict=True)
    ]
    answer = load_function("scheduler").handler({"Records": records}, None)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


class TestFullRedis:
    @pytest.fixture
    def full(self, valkey):
        """Lowers `maxmemory` below what is used while the block runs."""

        @contextlib.contextmanager
        def full() -> Iterator[None]:
            valkey.config_set("maxmemory", "1mb")
            try:
                yield
            finally:
                valkey.config_set("maxmemory", "0")

        yield full
        valkey.config_set("maxmemory", "0")

    @pytest.fixture
    def running(self, scheduler, yard):
        """Two running nodes, and one that waits."""
        yard.worker(2)
        nodes = yard.task(yard.tenant(), 3)
        assert scheduler.ready(nodes) == 2
        return nodes

    def test_refused_node_stays_stored_and_is_retried(self, scheduler, yard, full, running):
        late = yard.task(yard.tenant(), 1)
        with full():
            with pytest.raises(QueueMemoryFull) as refusal:
                scheduler.ready(late)
            assert consume(*late) == [str(node_id) for node_id in late]
        assert (refusal.value.status, refusal.value.retry_after_s) == (503, 2)
        assert yard.states(late) == [("QUEUED", 0, False)]
        assert consume(*late) == []  # the message comes again
        assert str(late[0]) in queue().waiting_ids(0, 100)[0]

    def test_watchdog_enqueues_a_refused_node(self, scheduler, yard, full, running):
        late = yard.task(yard.tenant(), 1)
        with full(), pytest.raises(QueueMemoryFull):
            scheduler.ready(late)
        assert scheduler.reconcile("gpu").requeued == 1
        assert str(late[0]) in queue().waiting_ids(0, 100)[0]

    def test_ends_and_cancels_still_work(self, scheduler, yard, full, running):
        first, second = yard.dispatched(running)
        waiting = next(node_id for node_id in running if node_id not in (first, second))
        with full():
            yard.end(first)
            assert scheduler.release([ReleasedSlot(first, "gpu", 1_000_000)]) == 1
            yard.end(second)
            assert scheduler.release([ReleasedSlot(second, "gpu", 1_000_000)]) == 0
            assert queue().explain(str(waiting), now_ms=0).waiting_for == "none"
            yard.end(waiting)
            scheduler.release([ReleasedSlot(waiting, "gpu", None)])
        assert queue().running_ids() == set()

    def test_limits_are_stored_and_answered(self, scheduler, yard, full, running, addresses):
        with full():
            assert call("PATCH", "/ops/lanes/vip_short", {"parallelism": 1})[0] == 200
            assert call("PUT", "/ops/models/diffusion", {"limit": 1})[0] == 200
        assert scheduler.dispatch("gpu") == 0
        assert queue().pool().lanes["vip_short"].parallelism == 1

    @pytest.mark.parametrize("path", ["/ops/scheduler", "/ops/fairness", "/ops/decisions"])
    def test_lost_queue_without_memory_is_503(self, scheduler, valkey, full, running, path):
        valkey.flushall()
        with full():
            status, body, headers = call("GET", path)
            assert (status, body["code"], headers["retry-after"]) == (503, "SCHED_503_QUEUE_MEMORY", "2")
            assert call("GET", "/ops/lanes")[0] == call("GET", "/ops/workers")[0] == 200
        assert call("GET", path)[0] == 200


class TestNewerLayout:
    @pytest.fixture
    def newer(self, scheduler, yard, valkey):
        """A newer release has rebuilt the queue in its own layout."""
        yard.worker(2)
        nodes = yard.task(yard.tenant(), 2)
        scheduler.ready(nodes[:1])
        snapshot = bootstrap.scheduling_store().snapshot("gpu")
        release = FairQueue(valkey, "gpu", layout=LAYOUT + 1)
        release.attach()
        release.rebuild(snapshot, now_ms=0)
        return nodes

    def test_older_release_waits_and_rebuilds_nothing(self, scheduler, yard, valkey, newer):
        epoch = valkey.get(Keys("gpu").epoch)
        for _ in range(3):
            with pytest.raises(NewerLayout):
                scheduler.ready(newer[1:])
            with pytest.raises(NewerLayout):
                scheduler.reconcile("gpu")
            assert consume(newer[1]) == [str(newer[1])]
        assert valkey.get(Keys("gpu").epoch) == epoch
        assert yard.states(newer[1:]) == [("QUEUED", 0, False)]

    def test_older_release_answers_503(self, newer):
        status, body, headers = call("GET", "/ops/scheduler")
        assert (status, body["code"], headers["retry-after"]) == (503, "SCHED_503_NEWER_LAYOUT", "2")


def queue() -> FairQueue:
    found = bootstrap.fair_queues()("gpu")
    assert found.attach()
    return found


def call(method: str, path: str, body: object = None) -> tuple[int, dict, dict]:
    module = load_function("ops")
    zero = "00000000-0000-0000-0000-000000000000"
    identity = json.dumps({"tenantId": zero, "userId": zero, "permissions": "ops.read ops.write"})
    text = b"" if body is None else json.dumps(body).encode()
    headers = {"x-identity": identity, "content-type": "application/json"}
    answer = module.handler(http_event(method, f"/api/v1{path}", headers, text, set(module.api.rules)), None)
    return answer["statusCode"], json.loads(answer["body"]), answer["headers"]
