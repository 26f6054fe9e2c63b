"""In-memory queues, objects and `internal`, and a slot whose engine the test controls."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

from artiway.tasks.contract import BeatAnswer, Node, NodeVerdict, Settings, Terms, Verdict, WorkHint
from worker.attempt import Attempt
from worker.engines.base import EngineInfo
from worker.model import WorkMessage
from worker.ports import AddressRefused, ObjectExists, ObjectMissing, ObjectTooLarge, ServiceFailed
from worker.sandbox import EngineResult, Job
from worker.settings import WorkerSettings

TENANT = "11111111-1111-1111-1111-111111111111"
TASK = "22222222-2222-2222-2222-222222222222"


def settings(**changes: Any) -> WorkerSettings:
    values: dict[str, Any] = {
        "internal_function": "InternalFunction",
        "work_queue_urls": {"cutout": "q/cutout"},
        "progress_queue_url": "q/progress",
        "artefact_bucket": "artefacts",
        "poll_wait_s": 0,
        "engines": {"cutout": "preview"},
        "drain_s": 0.3,
    }
    return WorkerSettings(**{**values, **changes})


def addresses(*keys: str, number: int = 1) -> dict[str, str]:
    """Addresses of FakeObjects. A renewal has a higher number."""
    return {key: f"{number}|{key}" for key in keys}


def node(node_id: str = "n1", attempt: int = 1, **changes: Any) -> Node:
    prefix = f"outputs/{TENANT}/{TASK}/{node_id}/{attempt}/"
    headers = {"content-type": "image/png"}
    values: dict[str, Any] = {
        "nodeId": node_id,
        "taskId": TASK,
        "tenantId": TENANT,
        "attempt": attempt,
        "name": "cutout",
        "type": "cutout",
        "tool": "cutout",
        "params": {"step": "cutout"},
        "inputs": [{"name": "product", "key": f"inputs/{TENANT}/i1", "contentType": "image/png"}],
        "outputs": [
            {"name": "cutout", "key": f"{prefix}cutout.png", "contentType": "image/png", "headers": headers},
        ],
        "outputPrefix": prefix,
        "timeLimitSeconds": 30,
        "leaseSeconds": 30,
        **changes,
    }
    keys = [one["key"] for one in (*values["inputs"], *values["outputs"])]
    return Node.model_validate({"urls": addresses(*keys), **values})


def message(node_id: str = "n1", attempt: int = 1, receipt: str = "r1", kind: str = "cutout") -> WorkMessage:
    return WorkMessage(receipt, kind, WorkHint(node_id=node_id, attempt=attempt), "trace-1")


class FakeQueue:
    def __init__(self) -> None:
        self.waiting: deque[WorkMessage] = deque()
        self.deleted: list[str] = []
        self.made_visible: list[str] = []
        self.received: list[str] = []
        self.polled: list[tuple[str, int]] = []
        self.polls = 0

    def receive(self, node_type: str, wait_s: int) -> WorkMessage | None:
        self.polls += 1
        if self.polls < 100:
            self.polled.append((node_type, wait_s))
        for message in list(self.waiting):
            if message.node_type == node_type:
                self.waiting.remove(message)
                self.received.append(message.receipt)
                return message
        return None

    def delete(self, message: WorkMessage) -> None:
        self.deleted.append(message.receipt)

    def make_visible(self, message: WorkMessage) -> None:
        self.made_visible.append(message.receipt)


class FakeProgress:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.failures = 0
        self.arrived = threading.Condition()

    def send(self, envelope: Mapping[str, Any], *, tenant_id: str) -> None:
        with self.arrived:
            if self.failures > 0:
                self.failures -= 1
                raise ServiceFailed("the queue does not answer")
            self.sent.append(dict(envelope))
            self.arrived.notify_all()

    def kinds(self) -> list[str]:
        return [envelope["type"] for envelope in self.sent]

    def wait_for(self, kind: str, *, count: int = 1, timeout_s: float = 30) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.kinds().count(kind) >= count, timeout_s), self.kinds()


class FakeInternal:
    """Fences as the real function does: each attempt is claimed once."""

    def __init__(self, *nodes: Node) -> None:
        self.claimable = {(node.node_id, node.attempt): node for node in nodes}
        self.calls: list[tuple[str, Any]] = []
        self.called = threading.Condition()
        self.verdicts: dict[str, Verdict] = {}
        self.is_down = self.is_draining = False
        self.settings: Settings | None = None
        self.renewals = 1

    def register(self, worker: Mapping[str, Any]) -> Terms:
        self._call("register", dict(worker))
        return Terms(lease_seconds=30, beat_seconds=0.05)

    def claim(self, hint: WorkHint, *, worker_id: str) -> Node | None:
        self._call("claim", (hint.node_id, hint.attempt))
        return self.claimable.pop((hint.node_id, hint.attempt), None)

    def beat(self, worker: Mapping[str, Any], nodes: Sequence[Node]) -> BeatAnswer:
        self._call("beat", (dict(worker), [(node.node_id, node.attempt) for node in nodes]))
        self.renewals += 1
        verdicts = [
            NodeVerdict(
                node_id=node.node_id,
                verdict=self.verdicts.get(node.node_id, Verdict.GO),
                urls=addresses(*node.urls, number=self.renewals),
            )
            for node in nodes
        ]
        return BeatAnswer(nodes=verdicts, drain=self.is_draining, settings=self.settings)

    def release(self, *, worker_id: str, nodes: Sequence[Node]) -> int:
        self._call("release", [(node.node_id, node.attempt) for node in nodes])
        return len(nodes)

    def _call(self, action: str, detail: Any) -> None:
        with self.called:
            self.calls.append((action, detail))
            self.called.notify_all()
        if self.is_down:
            raise ServiceFailed("internal does not answer")

    def wait_for_slots(self, slots: int, timeout_s: float = 30) -> None:
        """Until a heartbeat reports this number of slots."""
        with self.called:
            reported = lambda: any(detail[0]["slots"] == slots for detail in self.of("beat"))  # noqa: E731
            assert self.called.wait_for(reported, timeout_s)

    def of(self, action: str) -> list[Any]:
        return [detail for name, detail in self.calls if name == action]


class FakeStore:
    """Weights."""

    def __init__(self, objects: Mapping[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})
        self.is_down = False
        self.reads: list[str] = []
        self.go = threading.Event()  # cleared, a read waits
        self.go.set()

    def read(self, key: str, target: BinaryIO, *, max_bytes: int, bucket: str = "") -> None:
        self.reads.append(key)
        assert self.go.wait(20)
        if self.is_down:
            target.write(b"half")
            raise ServiceFailed("the store does not answer")
        if key not in self.objects:
            raise ObjectMissing(key)
        if len(self.objects[key]) > max_bytes:
            raise ObjectTooLarge(key)
        target.write(self.objects[key])


class FakeObjects:
    """Objects by address. Addresses with a number below `oldest` have expired."""

    def __init__(self, objects: Mapping[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})
        self.is_down = False
        self.oldest = 1
        self.failures: list[Exception] = []
        self.calls = 0

    def read(self, url: str, *, max_bytes: int, check: Callable[[], None]) -> bytes:
        key = self._key(url, check)
        if key not in self.objects:
            raise ObjectMissing(key)
        if len(self.objects[key]) > max_bytes:
            raise ObjectTooLarge(key)
        return self.objects[key]

    def write(self, url: str, data: bytes, headers: Mapping[str, str], *, check: Callable[[], None]) -> None:
        key = self._key(url, check)
        if key in self.objects:
            raise ObjectExists(key)
        self.objects[key] = data

    def _key(self, url: str, check: Callable[[], None]) -> str:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        if self.is_down:
            raise ServiceFailed("the store does not answer")
        check()
        number, _, key = url.partition("|")
        if not number or int(number) < self.oldest:
            raise AddressRefused("403 AccessDenied")
        return key


INFO = EngineInfo("preview", "1", is_neural=False, detail="fake")
RESULT = EngineResult(b"picture", "cutout", "image/png", 4, 4, INFO)


class FakeSlot:
    """Runs until the test sets `go` or the attempt is stopped."""

    def __init__(self, engine: Callable[[Callable[[float], None]], EngineResult] | None = None) -> None:
        self.engine = engine
        self.running, self.go = threading.Event(), threading.Event()
        self.jobs: list[Job] = []

    def run(self, job: Job, attempt: Attempt, report: Callable[[float], None], *, time_limit_s: float) -> EngineResult:
        self.jobs.append(job)
        self.running.set()
        if self.engine is not None:
            return self.engine(report)
        attempt.on_stop(self.go.set)
        assert self.go.wait(20)
        attempt.check()
        return RESULT
