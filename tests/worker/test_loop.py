"""The loop with an outside world in memory: what is claimed, deleted, reported, handed back, and in which order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.worker.fakes import (
    MADE,
    TENANT,
    FakeInternal,
    FakeProgress,
    FakeQueue,
    FakeSlot,
    FakeStore,
    message,
    node,
    settings,
)
from tests.worker.samples import png
from worker.engines.weights import Weights
from worker.errors import EngineCrashed, TimeLimit
from worker.loop import Worker
from worker.model import Verdict, WorkMessage
from worker.runner import Runner
from worker.sandbox import Made


class Bench:
    def __init__(self, *nodes: Any, slot: FakeSlot | None = None, slots: int = 1, **changes: Any) -> None:
        self.settings = settings(**changes)
        self.queue, self.progress, self.internal = FakeQueue(), FakeProgress(), FakeInternal(*nodes)
        self.store = FakeStore({f"inputs/{TENANT}/i1": png()})
        self.slots = [slot or FakeSlot() for _ in range(slots)]
        self.now = 0.0
        self.worker = Worker(
            self.settings,
            worker_id="w1",
            queue=self.queue,
            progress=self.progress,
            internal=self.internal,
            runner=Runner(self.settings, self.store, Weights(self.store, self.settings)),
            slots=self.slots,
            clock=lambda: self.now,
        )

    def accept(self, work: WorkMessage) -> threading.Thread:
        thread = self.worker.accept(work)
        assert thread is not None
        return thread

    def finish(self, work: WorkMessage) -> None:
        self.slots[0].go.set()
        thread = self.accept(work)
        ended(thread)


def ended(thread: threading.Thread) -> None:
    thread.join(10)
    assert not thread.is_alive()


def data_of(envelope: dict[str, Any]) -> dict[str, Any]:
    return dict(envelope["data"])


def test_a_node_is_claimed_its_message_deleted_its_picture_uploaded_and_its_result_told():
    bench = Bench(node())
    bench.finish(message())
    assert bench.queue.deleted == ["r1"]
    assert bench.progress.kinds() == ["started", "result"]
    result = bench.progress.sent[-1]
    assert (result["aggregate"], result["traceId"]) == ("node:n1", "trace-1")
    data = data_of(result)
    assert (data["attempt"], data["workerId"], data["progress"], data["sequence"]) == (1, "w1", 100, 2)
    (output,) = data["outputs"]
    assert output["key"].endswith("/n1/1/cutout.png")
    assert output["key"] in bench.store.objects
    assert data["engine"]["isNeural"] is False
    assert not bench.worker.leases.held()


def test_the_message_is_deleted_before_the_engine_runs_because_the_lease_is_the_lock():
    bench = Bench(node())
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    assert bench.queue.deleted == ["r1"]
    bench.slots[0].go.set()
    ended(thread)


def test_a_duplicate_message_is_dropped_without_work():
    bench = Bench(node())
    bench.finish(message(receipt="first"))
    bench.finish(message(receipt="again"))
    assert bench.queue.deleted == ["first", "again"]
    assert bench.progress.kinds().count("result") == 1
    assert len(bench.slots[0].jobs) == 1


def test_a_message_that_is_not_work_is_deleted_and_nothing_is_claimed():
    bench = Bench(node())
    bench.finish(WorkMessage("odd", "cutout", None))
    assert bench.queue.deleted == ["odd"]
    assert bench.internal.of("claim") == []


def test_a_claim_without_an_answer_leaves_the_message_and_frees_the_slot():
    bench = Bench(node())
    bench.internal.is_away = True
    bench.finish(message())
    assert bench.queue.deleted == []
    bench.internal.is_away = False
    bench.finish(message())
    assert bench.progress.kinds()[-1] == "result"


def test_a_message_beyond_the_free_slots_is_given_back_at_once():
    bench = Bench(node(), node("n2"))
    thread = bench.accept(message())
    assert bench.worker.accept(message("n2", receipt="r2")) is None
    assert bench.queue.given_back == ["r2"]
    bench.slots[0].go.set()
    ended(thread)


def test_one_beat_renews_all_nodes():
    bench = Bench(node(), node("n2"), slots=2)
    threads = [bench.accept(message()), bench.accept(message("n2", receipt="r2"))]
    for slot in bench.slots:
        assert slot.running.wait(10)
    assert bench.worker.heartbeat.beat()
    ((described, nodes),) = bench.internal.of("beat")
    assert sorted(nodes) == [("n1", 1), ("n2", 1)]
    assert described == {"workerId": "w1", "pool": "gpu", "types": ["cutout"], "slots": 2, "engine": "preview"}
    for slot in bench.slots:
        slot.go.set()
    for thread in threads:
        ended(thread)


def test_only_a_beat_that_was_answered_keeps_the_container_healthy(tmp_path):
    file = tmp_path / "beat"
    bench = Bench(beat_file=str(file))
    bench.internal.is_away = True
    bench.worker.heartbeat.beat()
    assert not file.exists()
    bench.internal.is_away = False
    bench.worker.heartbeat.beat()
    assert file.exists()


def test_a_cancelled_node_stops_uploads_nothing_and_says_so():
    bench = Bench(node())
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    bench.internal.verdicts["n1"] = Verdict.CANCELLED
    bench.worker.heartbeat.beat()
    ended(thread)
    error = data_of(bench.progress.sent[-1])["error"]
    assert (bench.progress.kinds()[-1], error["code"], error["isRetryable"]) == ("failure", "CANCELLED", False)
    assert list(bench.store.objects) == [f"inputs/{TENANT}/i1"]


def test_a_fenced_node_stops_and_says_nothing_more():
    bench = Bench(node())
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    bench.internal.verdicts["n1"] = Verdict.FENCED
    bench.worker.heartbeat.beat()
    ended(thread)
    assert bench.progress.kinds() == ["started"]
    assert list(bench.store.objects) == [f"inputs/{TENANT}/i1"]


def test_a_lease_that_no_beat_could_renew_is_given_up_when_it_ends_and_not_before():
    bench = Bench(node())
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    bench.internal.is_away = True
    bench.now = 29.9
    assert not bench.worker.heartbeat.beat()
    assert thread.is_alive()
    bench.now = 30.0
    bench.worker.heartbeat.beat()
    ended(thread)
    assert bench.progress.kinds() == ["started"]


def test_a_beat_that_gets_through_starts_the_lease_anew_from_when_it_was_sent():
    bench = Bench(node())
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    bench.now = 29.0
    assert bench.worker.heartbeat.beat()
    bench.internal.is_away = True
    bench.now = 58.9
    bench.worker.heartbeat.beat()
    assert thread.is_alive()
    bench.now = 59.0
    bench.worker.heartbeat.beat()
    ended(thread)
    assert bench.progress.kinds() == ["started"]


def test_a_cancel_that_comes_when_the_picture_is_made_keeps_it_from_being_uploaded():
    bench = Bench(node())

    def act(report: Callable[[float], None]) -> Made:
        bench.internal.verdicts["n1"] = Verdict.CANCELLED
        bench.worker.heartbeat.beat()
        return MADE

    bench.slots[0].act = act
    bench.finish(message())
    assert list(bench.store.objects) == [f"inputs/{TENANT}/i1"]
    assert data_of(bench.progress.sent[-1])["error"]["code"] == "CANCELLED"


@pytest.mark.parametrize(
    ("error", "code"), [(TimeLimit("late"), "TIME_LIMIT"), (EngineCrashed("gone"), "ENGINE_CRASHED")]
)
def test_a_lost_engine_is_a_failure_that_may_be_retried(error: Exception, code: str):
    def act(report: Callable[[float], None]) -> Made:
        raise error

    bench = Bench(node(), slot=FakeSlot(act))
    bench.finish(message())
    fault = data_of(bench.progress.sent[-1])["error"]
    assert (fault["code"], fault["isRetryable"]) == (code, True)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"inputs": [{"name": "product", "key": f"inputs/{TENANT}/none"}]}, "INPUT_MISSING"),
        ({"inputs": [{"name": "product", "key": "inputs/another-tenant/i1"}]}, "INPUT_FOREIGN"),
        ({"inputs": [{"name": "product", "key": f"inputs/{TENANT}/../x/i1"}]}, "INPUT_FOREIGN"),
        ({"inputs": [{"name": "product", "key": f"inputs/{TENANT}/text"}]}, "INPUT_TYPE_UNKNOWN"),
        ({"inputs": [{"name": "product", "key": f"inputs/{TENANT}/huge"}]}, "INPUT_TOO_LARGE"),
        ({"params": {"step": "paint"}}, "STEP_UNKNOWN"),
        ({"params": {"step": "cutout", "featherPx": 99}}, "STEP_BAD_PARAMS"),
    ],
)
def test_bad_input_fails_for_good_before_an_engine_sees_it(changes: dict[str, Any], code: str):
    bench = Bench(node(**changes), input_max_bytes=2048)
    bench.store.objects |= {f"inputs/{TENANT}/text": b"hello", f"inputs/{TENANT}/huge": png() + bytes(4096)}
    bench.finish(message())
    fault = data_of(bench.progress.sent[-1])["error"]
    assert (fault["code"], fault["isRetryable"]) == (code, False)
    assert bench.slots[0].jobs == []


def test_a_store_that_is_away_is_a_failure_that_may_be_retried():
    bench = Bench(node())
    bench.store.is_away = True
    bench.finish(message())
    fault = data_of(bench.progress.sent[-1])["error"]
    assert (fault["code"], fault["isRetryable"]) == ("STORE_UNAVAILABLE", True)


def test_a_bug_in_one_attempt_frees_its_slot_and_lease():
    def act(report: Callable[[float], None]) -> Made:
        raise ZeroDivisionError

    bench = Bench(node(), node("n2"), slot=FakeSlot(act))
    bench.finish(message())
    assert not bench.worker.leases.held()
    bench.slots[0].act = lambda report: MADE
    bench.finish(message("n2", receipt="r2"))
    assert bench.progress.kinds()[-1] == "result"


def test_draining_waits_for_what_can_be_finished():
    bench = Bench(node(), drain_s=20)
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    bench.worker.stop()
    draining = threading.Thread(target=bench.worker.drain)
    draining.start()
    bench.slots[0].go.set()
    ended(draining)
    ended(thread)
    assert bench.progress.kinds()[-1] == "result"
    assert bench.internal.of("release") == []


def test_draining_announces_no_slots_and_hands_back_what_is_not_finished():
    bench = Bench(node(), drain_s=0)
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    bench.worker.stop()
    bench.worker.drain()
    ended(thread)
    ((described, _),) = bench.internal.of("beat")
    assert described["slots"] == 0
    assert bench.internal.of("release") == [[("n1", 1)]]
    assert bench.progress.kinds() == ["started"]


def test_a_draining_worker_gives_new_messages_back():
    bench = Bench(node())
    bench.worker.stop()
    assert bench.worker.accept(message()) is None
    assert bench.queue.given_back == ["r1"]
    assert bench.internal.of("claim") == []


def test_the_whole_life_from_register_to_drain():
    bench = Bench(node())
    bench.slots[0].go.set()
    bench.queue.waiting.append(message())
    life = threading.Thread(target=bench.worker.run)
    life.start()
    bench.progress.wait_for("result")
    bench.worker.stop()
    ended(life)
    assert bench.internal.calls[0][0] == "register"
    assert bench.internal.of("claim") == [("n1", 1)]
