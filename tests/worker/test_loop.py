"""The worker's loop with in-memory services: claims, deletes, reports and releases, in order."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from artiway.tasks.contract import Settings, Verdict
from tests.worker.emulator import until
from tests.worker.fakes import (
    RESULT,
    TENANT,
    FakeInternal,
    FakeObjects,
    FakeProgress,
    FakeQueue,
    FakeSlot,
    FakeStore,
    addresses,
    message,
    node,
    settings,
)
from tests.worker.samples import png
from worker.engines.weights import Weights
from worker.errors import EngineCrashed, TimeLimit
from worker.loop import Worker
from worker.model import WorkMessage
from worker.polling import QueuePoller
from worker.ports import ServiceFailed
from worker.runner import Runner
from worker.sandbox import EngineResult
from worker.transfer import PAUSES_S, Transfer


class Bench:
    def __init__(self, *nodes: Any, slot: FakeSlot | None = None, slots: int = 1, **changes: Any) -> None:
        self.settings = settings(**changes)
        self.queue, self.progress, self.internal = FakeQueue(), FakeProgress(), FakeInternal(*nodes)
        self.store = FakeObjects({f"inputs/{TENANT}/i1": png()})
        transfer = Transfer(self.store, sleep=lambda _: None)
        self.slots = [slot or FakeSlot() for _ in range(slots)]
        self.now = 0.0
        self.worker = Worker(
            self.settings,
            worker_id="w1",
            queue=self.queue,
            progress=self.progress,
            internal=self.internal,
            runner=Runner(self.settings, transfer, Weights(FakeStore(), self.settings)),
            slots=self.slots,
            clock=lambda: self.now,
        )

    def accept(self, work_message: WorkMessage, slot: int = 0) -> threading.Thread:
        thread = threading.Thread(target=self.worker.accept, args=(work_message, self.slots[slot]))
        thread.start()
        return thread

    def finish(self, work_message: WorkMessage) -> None:
        self.slots[0].go.set()
        ended(self.accept(work_message))


def ended(thread: threading.Thread) -> None:
    thread.join(10)
    assert not thread.is_alive()


def data_of(envelope: dict[str, Any]) -> dict[str, Any]:
    return dict(envelope["data"])


def test_lines_of_an_attempt_carry_the_trace(capsys):
    Bench(node()).finish(message())
    (done,) = [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if line["message"] == "node done"]
    assert (done["trace_id"], done["node_id"]) == ("trace-1", "n1")


def test_claimed_node_is_uploaded_and_its_result_reported():
    bench = Bench(node())
    bench.finish(message())
    assert bench.queue.deleted == ["r1"]
    assert bench.progress.kinds() == ["result"]
    result = bench.progress.sent[-1]
    assert (result["aggregate"], result["traceId"]) == ("node:n1", "trace-1")
    data = data_of(result)
    assert (data["attempt"], data["workerId"], data["progress"], data["sequence"]) == (1, "w1", 100, 1)
    (output,) = data["outputs"]
    assert output["key"].endswith("/n1/1/cutout.png")
    assert output["key"] in bench.store.objects
    assert data["engine"]["isNeural"] is False
    assert not bench.worker.leases.held()


def test_weights_that_arrive_later_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("worker.loop.PREPARE_S", 0.02)
    data = b"weights"
    own = {"key": "models/own.onnx", "sha256": hashlib.sha256(data).hexdigest(), "steps": ["cutout"]}
    bench = Bench(engines={"cutout": "onnx,preview"}, models={"own": own}, model_folder=str(tmp_path))
    running = threading.Thread(target=bench.worker.run)
    running.start()
    until(lambda: bench.internal.of("beat"))
    (tmp_path / own["sha256"]).write_bytes(data)
    until(lambda: bench.internal.of("beat")[-1][0]["neural"] == ["cutout"])
    bench.worker.stop()
    ended(running)
    assert bench.internal.of("register")[0]["neural"] == []


def test_message_is_deleted_before_the_engine_runs():
    bench = Bench(node())
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    assert bench.queue.deleted == ["r1"]
    bench.slots[0].go.set()
    ended(thread)


def test_duplicate_message_is_deleted_without_an_attempt():
    bench = Bench(node())
    bench.finish(message(receipt="first"))
    bench.finish(message(receipt="again"))
    assert bench.queue.deleted == ["first", "again"]
    assert bench.progress.kinds().count("result") == 1
    assert len(bench.slots[0].jobs) == 1


def test_invalid_message_is_deleted_without_a_claim():
    bench = Bench(node())
    bench.finish(WorkMessage("odd", "cutout", None))
    assert bench.queue.deleted == ["odd"]
    assert bench.internal.of("claim") == []


def test_unanswered_claim_keeps_message_and_frees_slot():
    bench = Bench(node())
    bench.internal.is_down = True
    bench.finish(message())
    assert bench.queue.deleted == []
    bench.internal.is_down = False
    bench.finish(message())
    assert bench.progress.kinds()[-1] == "result"


def test_one_slot_receives_one_message_of_five_queues():
    kinds = ("cutout", "model", "compose", "extend", "hd_fix")
    nodes = [node(f"n{number}") for number in range(10)]
    bench = Bench(*nodes, work_queue_urls={kind: f"q/{kind}" for kind in kinds})
    for number, each in enumerate(nodes):
        bench.queue.waiting.append(message(each.node_id, receipt=f"r{number}", kind=kinds[number % len(kinds)]))
    received_while_busy: list[int] = []

    def engine(report: Callable[[float], None]) -> EngineResult:
        received_while_busy.append(len(bench.queue.received) - len(bench.queue.deleted))
        return RESULT

    bench.slots[0].engine = engine
    running = threading.Thread(target=bench.worker.run)
    running.start()
    bench.progress.wait_for("result", count=len(nodes))
    bench.worker.stop()
    ended(running)
    assert received_while_busy == [0] * len(nodes)
    assert sorted(bench.queue.received) == sorted(f"r{number}" for number in range(10))
    assert bench.queue.made_visible == []


def test_busy_slot_does_not_poll_its_queues():
    bench = Bench(node(), node("n2"), work_queue_urls={"cutout": "q/cutout", "model": "q/model"})
    bench.queue.waiting.append(message())
    running = threading.Thread(target=bench.worker.run)
    running.start()
    assert bench.slots[0].running.wait(10)
    bench.queue.waiting.append(message("n2", receipt="r2", kind="model"))
    polls = bench.queue.polls
    for _ in range(3):  # heartbeats show that the worker is running
        count = len(bench.internal.of("beat"))
        until(lambda count=count: len(bench.internal.of("beat")) > count)
    assert (bench.queue.polls, bench.queue.received) == (polls, ["r1"])
    bench.slots[0].go.set()
    bench.progress.wait_for("result", count=2)
    bench.worker.stop()
    ended(running)
    assert bench.queue.received == ["r1", "r2"]


def poller_of_three(queue: FakeQueue, now: list[float]) -> QueuePoller:
    types = ("cutout", "model", "compose")
    return QueuePoller(queue, types, start=0, wait_s=10, stopping=threading.Event(), clock=lambda: now[0])


def test_idle_slot_long_polls_every_queue_in_turn():
    queue = FakeQueue()
    poller = poller_of_three(queue, [100.0])
    for _ in range(2):
        assert poller.poll() is None
    assert queue.polled == [(kind, 1) for kind in ("model", "compose", "cutout", "compose", "cutout", "model")]


def test_one_poll_waits_after_a_node():
    queue, now = FakeQueue(), [100.0]
    poller = poller_of_three(queue, now)
    queue.waiting.append(message(kind="model"))
    assert poller.poll()
    queue.polled.clear()
    now[0] += 60  # the node runs
    for _ in range(3):
        assert poller.poll() is None
    assert [kind for kind, wait_s in queue.polled if wait_s] == ["compose", "cutout", "model"], "each has its long poll"
    assert Counter(kind for kind, _ in queue.polled) == {"cutout": 3, "model": 3, "compose": 3}
    queue.polled.clear()
    now[0] += 11
    assert poller.poll() is None
    assert {wait_s for _, wait_s in queue.polled} == {1}


def test_slot_with_one_queue_uses_full_long_polls():
    queue = FakeQueue()
    QueuePoller(queue, ("cutout",), start=0, wait_s=10, stopping=threading.Event()).poll()
    assert queue.polled == [("cutout", 10)]


def test_one_heartbeat_renews_all_leases():
    bench = Bench(node(), node("n2"), slots=2)
    threads = [bench.accept(message()), bench.accept(message("n2", receipt="r2"), slot=1)]
    for slot in bench.slots:
        assert slot.running.wait(10)
    assert bench.worker.heartbeat.beat()
    ((described, nodes),) = bench.internal.of("beat")
    assert sorted(nodes) == [("n1", 1), ("n2", 1)]
    assert described == {
        "workerId": "w1",
        "pool": "gpu",
        "types": ["cutout"],
        "slots": 2,
        "engine": "preview",
        "neural": [],
    }
    for slot in bench.slots:
        slot.go.set()
    for thread in threads:
        ended(thread)


def test_only_answered_heartbeats_keep_the_container_healthy(tmp_path):
    file = tmp_path / "beat"
    bench = Bench(beat_file=str(file))
    bench.internal.is_down = True
    bench.worker.heartbeat.beat()
    assert not file.exists()
    bench.internal.is_down = False
    bench.worker.heartbeat.beat()
    assert file.exists()


def test_cancelled_node_uploads_nothing_and_reports_it():
    bench = Bench(node())
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    bench.internal.verdicts["n1"] = Verdict.CANCELLED
    bench.worker.heartbeat.beat()
    ended(thread)
    error = data_of(bench.progress.sent[-1])["error"]
    assert (bench.progress.kinds()[-1], error["code"], error["isRetryable"]) == ("failure", "CANCELLED", False)
    assert list(bench.store.objects) == [f"inputs/{TENANT}/i1"]


def test_fenced_node_stops_and_sends_no_report():
    bench = Bench(node())
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    bench.internal.verdicts["n1"] = Verdict.FENCED
    bench.worker.heartbeat.beat()
    ended(thread)
    assert bench.progress.kinds() == []
    assert list(bench.store.objects) == [f"inputs/{TENANT}/i1"]


def test_unrenewed_lease_is_given_up_at_its_end():
    bench = Bench(node())
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    bench.internal.is_down = True
    bench.now = 29.9
    assert not bench.worker.heartbeat.beat()
    assert thread.is_alive()
    bench.now = 30.0
    bench.worker.heartbeat.beat()
    ended(thread)
    assert bench.progress.kinds() == []


def test_heartbeat_renews_lease_from_its_send_time():
    bench = Bench(node())
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    bench.now = 29.0
    assert bench.worker.heartbeat.beat()
    bench.internal.is_down = True
    bench.now = 58.9
    bench.worker.heartbeat.beat()
    assert thread.is_alive()
    bench.now = 59.0
    bench.worker.heartbeat.beat()
    ended(thread)
    assert bench.progress.kinds() == []


def test_late_cancel_prevents_the_upload():
    bench = Bench(node())

    def engine(report: Callable[[float], None]) -> EngineResult:
        bench.internal.verdicts["n1"] = Verdict.CANCELLED
        bench.worker.heartbeat.beat()
        return RESULT

    bench.slots[0].engine = engine
    bench.finish(message())
    assert list(bench.store.objects) == [f"inputs/{TENANT}/i1"]
    assert data_of(bench.progress.sent[-1])["error"]["code"] == "CANCELLED"


@pytest.mark.parametrize(
    ("error", "code"), [(TimeLimit("late"), "TIME_LIMIT"), (EngineCrashed("gone"), "ENGINE_CRASHED")]
)
def test_lost_engine_is_a_retryable_failure(error: Exception, code: str):
    def engine(report: Callable[[float], None]) -> EngineResult:
        raise error

    bench = Bench(node(), slot=FakeSlot(engine))
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
def test_bad_input_fails_finally_before_the_engine(changes: dict[str, Any], code: str):
    bench = Bench(node(**changes), input_max_bytes=2048)
    bench.store.objects |= {f"inputs/{TENANT}/text": b"hello", f"inputs/{TENANT}/huge": png() + bytes(4096)}
    bench.finish(message())
    fault = data_of(bench.progress.sent[-1])["error"]
    assert (fault["code"], fault["isRetryable"]) == (code, False)
    assert bench.slots[0].jobs == []


def test_unreachable_store_is_a_retryable_failure():
    bench = Bench(node())
    bench.store.is_down = True
    bench.finish(message())
    fault = data_of(bench.progress.sent[-1])["error"]
    assert (fault["code"], fault["isRetryable"]) == ("STORE_UNAVAILABLE", True)


def test_expired_address_is_renewed_with_the_lease():
    bench = Bench(node())

    def engine(report: Callable[[float], None]) -> EngineResult:
        bench.store.oldest = 2  # the addresses of the claim have expired when the engine ends
        return RESULT

    bench.slots[0].engine = engine
    bench.finish(message())
    assert bench.progress.kinds()[-1] == "result"
    assert len(bench.internal.of("beat")) == 1


def test_address_refused_twice_fails_the_attempt():
    bench = Bench(node())
    bench.store.oldest = 99
    bench.finish(message())
    fault = data_of(bench.progress.sent[-1])["error"]
    assert (fault["code"], fault["isRetryable"]) == ("STORE_UNAVAILABLE", True)
    assert (len(bench.internal.of("beat")), bench.store.calls) == (1, 2)


def test_fenced_attempt_gets_no_new_addresses():
    bench = Bench(node())

    def engine(report: Callable[[float], None]) -> EngineResult:
        bench.store.oldest = 2
        bench.internal.verdicts["n1"] = Verdict.FENCED
        return RESULT

    bench.slots[0].engine = engine
    bench.finish(message())
    assert bench.progress.kinds() == []
    assert list(bench.store.objects) == [f"inputs/{TENANT}/i1"]


def test_heartbeat_replaces_addresses_before_they_expire():
    bench = Bench(node())
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    bench.worker.heartbeat.beat()
    (attempt,) = bench.worker.leases.held()
    key = f"inputs/{TENANT}/i1"
    assert attempt.url(key) == addresses(key, number=2)[key]
    bench.store.oldest = 2
    bench.slots[0].go.set()
    ended(thread)
    assert bench.progress.kinds()[-1] == "result"


def test_network_failures_are_retried_within_a_bound():
    bench = Bench(node(), node("n2"))
    bench.store.failures = [ServiceFailed("cut")] * len(PAUSES_S)
    bench.finish(message())
    assert bench.progress.kinds()[-1] == "result"
    bench.store.failures = [ServiceFailed("cut")] * 99
    calls = bench.store.calls
    bench.finish(message("n2", receipt="r2"))
    assert data_of(bench.progress.sent[-1])["error"]["code"] == "STORE_UNAVAILABLE"
    assert bench.store.calls - calls == len(PAUSES_S) + 1


def test_upload_without_answer_counts_once_stored():
    bench = Bench(node())
    write = bench.store.write

    def lossy(*arguments: Any, **named: Any) -> None:
        bench.store.write = write  # type: ignore[method-assign]
        write(*arguments, **named)
        raise ServiceFailed("no answer")

    bench.store.write = lossy  # type: ignore[method-assign]
    bench.finish(message())
    assert bench.progress.kinds()[-1] == "result"


def test_output_that_exists_before_upload_fails():
    bench = Bench(node())
    key = node().outputs[0].key
    bench.store.objects[key] = b"of another upload"
    bench.finish(message())
    assert data_of(bench.progress.sent[-1])["error"]["code"] == "STORE_UNAVAILABLE"
    assert bench.store.objects[key] == b"of another upload"


def test_output_without_an_address_fails_finally():
    bench = Bench(node(outputs=[]))
    bench.finish(message())
    fault = data_of(bench.progress.sent[-1])["error"]
    assert (fault["code"], fault["isRetryable"]) == ("OUTPUT_UNEXPECTED", False)


def test_node_of_an_older_platform_is_returned():
    bench = Bench(node(urls={}))
    thread = bench.accept(message())
    until(lambda: bench.internal.of("release") == [[("n1", 1)]])
    bench.worker.stop()
    ended(thread)
    assert bench.progress.kinds() == []


def test_changed_settings_act_without_a_restart():
    bench = Bench(node())
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    bench.internal.settings = Settings(version="2", lease_seconds=12, beat_seconds=4, progress_interval_ms=500)
    assert bench.worker.heartbeat._beat_and_pause(10) == 4
    assert bench.worker.heartbeat.settings.progress_interval_ms == 500
    bench.internal.is_down = True
    bench.now = 12.0  # the shorter lease
    bench.worker.heartbeat.beat()
    ended(thread)
    assert bench.progress.kinds() == []


def test_bug_in_an_attempt_frees_slot_and_lease():
    def engine(report: Callable[[float], None]) -> EngineResult:
        raise ZeroDivisionError

    bench = Bench(node(), node("n2"), slot=FakeSlot(engine))
    bench.finish(message())
    assert not bench.worker.leases.held()
    bench.slots[0].engine = lambda report: RESULT
    bench.finish(message("n2", receipt="r2"))
    assert bench.progress.kinds()[-1] == "result"


def test_draining_waits_for_nodes_that_can_finish():
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


def test_draining_reports_no_slots_and_releases_unfinished_nodes():
    bench = Bench(node(), drain_s=0)
    thread = bench.accept(message())
    assert bench.slots[0].running.wait(10)
    bench.worker.stop()
    bench.worker.drain()
    ended(thread)
    ((described, _),) = bench.internal.of("beat")
    assert described["slots"] == 0
    assert bench.internal.of("release") == [[("n1", 1)]]
    assert bench.progress.kinds() == []


def test_draining_worker_makes_new_messages_visible():
    bench = Bench(node())
    bench.worker.stop()
    bench.worker.accept(message(), bench.slots[0])
    assert bench.queue.made_visible == ["r1"]
    assert bench.internal.of("claim") == []


def test_heartbeat_with_drain_ends_the_worker():
    bench = Bench(node(), drain_s=20)
    bench.queue.waiting.append(message())
    running = threading.Thread(target=bench.worker.run)
    running.start()
    assert bench.slots[0].running.wait(10)
    bench.internal.is_draining = True
    bench.internal.wait_for_slots(0)
    bench.queue.waiting.append(message("n2", receipt="r2"))
    bench.slots[0].go.set()
    ended(running)
    assert bench.progress.kinds()[-1] == "result"  # the node that it held was finished
    assert bench.internal.of("claim") == [("n1", 1)]
    assert bench.internal.calls[-1] == ("release", [])


def test_worker_runs_from_register_to_drain():
    bench = Bench(node())
    bench.slots[0].go.set()
    bench.queue.waiting.append(message())
    running = threading.Thread(target=bench.worker.run)
    running.start()
    bench.progress.wait_for("result")
    bench.worker.stop()
    ended(running)
    assert bench.internal.calls[0][0] == "register"
    assert bench.internal.of("claim") == [("n1", 1)]
