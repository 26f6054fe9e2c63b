"""`python -m worker` with an emulated SQS and S3, from the work message to the result, with cancels and kills."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import cv2
import pytest

from artiway.platform.clock import SystemClock
from artiway.platform.object_urls import ObjectUrls
from artiway.tasks.contract import FORMATS
from tests.worker.emulator import InternalServer, ministack, until
from tests.worker.fakes import TASK, TENANT
from tests.worker.photos import photo
from worker.pictures import Limits, Picture, decode, encode
from worker.steps import STEPS

ROOT = Path(__file__).resolve().parents[2]
TYPES = ("cutout", "model", "compose")


class Stack:
    def __init__(self, url: str, internal: InternalServer) -> None:
        self.url, self.internal = url, internal
        session = boto3.Session("test", "test", region_name="us-east-1")
        self.sqs: Any = session.client("sqs", endpoint_url=url)
        self.s3: Any = session.client("s3", endpoint_url=url)
        name = uuid.uuid4().hex[:8]
        self.bucket = f"artefacts-{name}"
        self.s3.create_bucket(Bucket=self.bucket)
        self.dead_letters = self.sqs.create_queue(QueueName=f"dead-{name}")["QueueUrl"]
        redrive = {"deadLetterTargetArn": self.arn_of(self.dead_letters), "maxReceiveCount": 1}
        self.queues = {
            kind: self.sqs.create_queue(QueueName=f"{kind}-{name}".replace("_", "-"), Attributes=attributes)["QueueUrl"]
            for kind, attributes in (
                *((kind, {"VisibilityTimeout": "3", "RedrivePolicy": json.dumps(redrive)}) for kind in TYPES),
                ("progress", {"VisibilityTimeout": "3"}),
            )
        }
        self.received: list[dict[str, Any]] = []
        signer = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
        self.urls = ObjectUrls(self.bucket, SystemClock(), {**signer, "AWS_ENDPOINT_URL": url})
        self.ttl_s = 35
        internal.sign = self.sign

    def sign(self, node: dict[str, Any]) -> dict[str, str]:
        reads = {one["key"]: self.urls.get(one["key"], ttl_s=self.ttl_s) for one in node["inputs"]}
        return reads | {
            one["key"]: self.urls.put(one["key"], one["headers"], ttl_s=self.ttl_s) for one in node["outputs"]
        }

    @contextlib.contextmanager
    def worker(self, *types: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker for all types, or for some: it polls the queues in turn, so one queue is served sooner."""
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT}:{ROOT}/layers/core",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ENDPOINT_URL_LAMBDA": self.internal.url,
            "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1",  # pictures do not pass through an S3 client
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "OPENBLAS_NUM_THREADS": "1",
            "ARTIWAY_INTERNAL_FUNCTION": "InternalFunction",
            "ARTIWAY_WORK_QUEUE_URLS": json.dumps({kind: self.queues[kind] for kind in TYPES}),
            "ARTIWAY_PROGRESS_QUEUE_URL": self.queues["progress"],
            "ARTIWAY_ARTEFACT_BUCKET": self.bucket,
            "ARTIWAY_WORKER_POOL": "gpu",
            "ARTIWAY_WORKER_TYPES": ",".join(types or TYPES),
            "ARTIWAY_WORKER_SLOTS": "1",
            "ARTIWAY_ENGINES": json.dumps(dict.fromkeys(TYPES, "preview")),
            "ARTIWAY_POLL_WAIT_S": "1",
            "ARTIWAY_DRAIN_S": "0",
            **variables,
        }
        process = subprocess.Popen([sys.executable, "-m", "worker"], cwd=ROOT, env=environment, start_new_session=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def submit(self, node_type: str, step: str, inputs: dict[str, str], attempt: int = 1, **params: Any) -> str:
        node_id = str(uuid.uuid4())
        prefix = f"outputs/{TENANT}/{TASK}/{node_id}/{attempt}/"
        name = STEPS[node_type, step].output
        content_type, ending = FORMATS[params.get("format", "png")]
        headers = {"content-type": content_type, "if-none-match": "*"}
        self.internal.nodes[node_id, attempt] = {
            "nodeId": node_id,
            "taskId": TASK,
            "tenantId": TENANT,
            "attempt": attempt,
            "name": step,
            "type": node_type,
            "tool": "model_photo",
            "model": None,
            "params": {"step": step, **params},
            "inputs": [{"name": name, "key": key, "contentType": "image/png"} for name, key in inputs.items()],
            "outputs": [
                {"name": name, "key": f"{prefix}{name}.{ending}", "contentType": content_type, "headers": headers}
            ],
            "outputPrefix": prefix,
            "timeLimitSeconds": 60,
            "leaseSeconds": 30,
        }
        self.send_work(node_type, node_id, attempt)
        return node_id

    def send_work(self, node_type: str, node_id: str, attempt: int) -> None:
        data = {"nodeId": node_id, "tenantId": TENANT, "attempt": attempt}
        body = {"type": "work", "aggregate": f"node:{node_id}", "traceId": "t-1", "at": "2026-01-01T00:00:00Z"}
        self.sqs.send_message(QueueUrl=self.queues[node_type], MessageBody=json.dumps({**body, "data": data}))

    def end_of(self, node_id: str) -> dict[str, Any]:
        return dict(until(lambda: self.receive(node_id, ("result", "failure"))))

    def receive(self, node_id: str, kinds: tuple[str, ...]) -> dict[str, Any] | None:
        answer = self.sqs.receive_message(QueueUrl=self.queues["progress"], MaxNumberOfMessages=10)
        for message in answer.get("Messages", []):
            self.received.append(json.loads(message["Body"]))
            self.sqs.delete_message(QueueUrl=self.queues["progress"], ReceiptHandle=message["ReceiptHandle"])
        return next((one for one in self.received if one["data"]["nodeId"] == node_id and one["type"] in kinds), None)

    def claims(self, node_id: str) -> int:
        return sum(call["nodeId"] == node_id for call in self.internal.of("claim"))

    def is_claimed(self, node_id: str) -> bool:
        """A worker has the node, and has deleted its message."""
        return self.claims(node_id) > 0 and self.is_empty("model")

    def arn_of(self, url: str) -> str:
        answer = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(answer["Attributes"]["QueueArn"])

    def is_empty(self, kind: str) -> bool:
        return self.count(self.queues[kind]) == 0

    def count(self, url: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        counts = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(int(counts[name]) for name in names)

    def upload(self, data: bytes) -> str:
        key = f"inputs/{TENANT}/{uuid.uuid4()}"
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=data)
        return key

    def objects(self, node_id: str) -> list[str]:
        prefix = f"outputs/{TENANT}/{TASK}/{node_id}/"
        answer = self.s3.list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [entry["Key"] for entry in answer.get("Contents", [])]


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ministack(tmp_path_factory.mktemp("emulator")) as url:
        yield url


@pytest.fixture
def stack(aws: str) -> Iterator[Stack]:
    internal = InternalServer()
    yield Stack(aws, internal)
    internal.close()


@pytest.fixture(scope="module")
def running(aws: str) -> Iterator[Stack]:
    """A stack with a worker that runs through the tests that leave it running."""
    internal = InternalServer()
    stack = Stack(aws, internal)
    with stack.worker():
        yield stack
    internal.close()


@pytest.fixture(scope="module")
def shirt() -> bytes:
    return encode(photo("shirt", "plain", width=400, height=400).picture, "png", 90)


@pytest.fixture(scope="module")
def big() -> bytes:
    """Large enough that a style takes seconds, longer than many heartbeats."""
    small = photo("mug", "cluttered", width=400, height=400).picture.rgb
    return encode(Picture(cv2.resize(small, (2400, 2400))), "jpeg", 90)


def test_model_photo_from_upload_to_picture(running, shirt):
    cutout = running.submit("cutout", "cutout", {"product": running.upload(shirt)})
    cut = running.end_of(cutout)["data"]["outputs"][0]
    model = running.submit("model", "figure", {"cutout": cut["key"]}, variant=1, width=300, height=400)
    posed = running.end_of(model)["data"]["outputs"][0]
    compose = running.submit("compose", "compose", {"model": posed["key"]}, format="webp", width=300, height=400)
    end = running.end_of(compose)
    assert end["type"] == "result"
    assert end["traceId"] == "t-1"
    assert (end["data"]["engine"]["name"], end["data"]["engine"]["isNeural"]) == ("preview", False)
    output = end["data"]["outputs"][0]
    stored = running.s3.get_object(Bucket=running.bucket, Key=output["key"])
    assert stored["ContentType"] == output["contentType"] == "image/webp"
    data = stored["Body"].read()
    picture = decode(data, Limits())
    assert (picture.width, picture.height, len(data)) == (output["width"], output["height"], output["bytes"])
    assert all(running.is_empty(kind) for kind in TYPES)
    assert running.internal.of("register")[0]["types"] == list(TYPES)
    assert running.internal.of("beat")


class TestWeights:
    """A worker whose weights are missing or damaged, in its folder and in the store."""

    @pytest.fixture
    def run(self, stack: Stack, shirt: bytes, tmp_path: Path) -> Callable[[str], dict[str, Any]]:
        def run(engines: str) -> dict[str, Any]:
            variables = {
                "ARTIWAY_ENGINES": json.dumps({**dict.fromkeys(TYPES, "preview"), "cutout": engines}),
                "ARTIWAY_MODEL_FOLDER": str(tmp_path),
                "AWS_ENDPOINT_URL_S3": stack.url,
            }
            with stack.worker("cutout", **variables):
                return stack.end_of(stack.submit("cutout", "cutout", {"product": stack.upload(shirt)}))

        return run

    def test_result_says_that_weights_are_missing(self, stack, run):
        end = run("onnx,preview")
        assert end["type"] == "result"
        engine = end["data"]["engine"]
        assert (engine["name"], engine["isNeural"]) == ("preview", False)
        assert "no neural model was used" in engine["detail"]
        assert "not made by onnx: there are no weights at models/isnet-medium.onnx" in engine["detail"]
        assert stack.internal.of("register")[0]["neural"] == []

    def test_result_says_that_weights_are_damaged(self, stack, run):
        stack.s3.put_object(Bucket=stack.bucket, Key="models/isnet-medium.onnx", Body=b"damaged")
        engine = run("onnx,preview")["data"]["engine"]
        assert engine["name"] == "preview"
        assert "the weights at models/isnet-medium.onnx do not have the configured checksum" in engine["detail"]

    def test_damaged_weights_without_fallback_are_a_clear_error(self, stack, run):
        stack.s3.put_object(Bucket=stack.bucket, Key="models/isnet-medium.onnx", Body=b"damaged")
        end = run("onnx")
        assert end["type"] == "failure"
        assert end["data"]["error"] == {
            "code": "MODEL_CHECKSUM",
            "message": "the weights at models/isnet-medium.onnx do not have the configured checksum",
            "isRetryable": False,
            "retryAfterSeconds": 0,
        }


def test_addresses_that_expire_while_working_are_renewed(running, big, monkeypatch):
    monkeypatch.setattr(running, "ttl_s", 1)  # less than the node takes
    node_id = running.submit("model", "style", {"product": running.upload(big)}, style="oil")
    end = running.end_of(node_id)
    assert end["type"] == "result"
    assert end["data"]["gpuSeconds"] > running.ttl_s
    assert running.objects(node_id) == [end["data"]["outputs"][0]["key"]]


def test_duplicate_and_stale_messages_are_dropped(running, shirt):
    node_id = running.submit("cutout", "cutout", {"product": running.upload(shirt)}, attempt=2)
    running.send_work("cutout", node_id, 2)
    running.send_work("cutout", node_id, 1)
    running.end_of(node_id)
    until(lambda: running.claims(node_id) == 3 and running.is_empty("cutout"))
    assert running.objects(node_id) == [f"outputs/{TENANT}/{TASK}/{node_id}/2/cutout.png"]


def test_one_slot_leaves_waiting_messages_in_the_queues(running, shirt):
    key = running.upload(shirt)
    kinds = (("cutout", "crop"), ("model", "derive"), ("compose", "convert"))
    nodes = [running.submit(kind, step, {"product": key}) for _ in range(3) for kind, step in kinds]
    ends = [running.end_of(node_id)["type"] for node_id in nodes]
    assert ends == ["result"] * len(nodes)
    assert running.count(running.dead_letters) == 0


def test_invalid_picture_fails_finally_and_worker_continues(running, shirt):
    bad = running.end_of(
        running.submit("cutout", "cutout", {"product": running.upload(b"\x89PNG\r\n\x1a\n" + bytes(500))})
    )
    good = running.end_of(running.submit("cutout", "cutout", {"product": running.upload(shirt)}))
    assert (bad["type"], bad["data"]["error"]["isRetryable"]) == ("failure", False)
    assert good["type"] == "result"


def test_cancel_stops_a_running_node(running, big):
    node_id = running.submit("model", "style", {"product": running.upload(big)}, style="oil")
    running.internal.verdicts[node_id] = "cancelled"
    end = running.end_of(node_id)
    assert (end["type"], end["data"]["error"]["code"]) == ("failure", "CANCELLED")
    assert running.objects(node_id) == []


def test_sigterm_releases_running_nodes_and_ends_process(stack, big):
    with stack.worker("model") as process:
        node_id = stack.submit("model", "style", {"product": stack.upload(big)}, style="oil")
        until(lambda: stack.is_claimed(node_id))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    released = [call["nodes"] for call in stack.internal.of("release")]
    assert released == [[{"nodeId": node_id, "attempt": 1}], []]  # the second takes the worker off the list
    assert stack.internal.of("beat")[-1]["slots"] == 0
    assert stack.receive(node_id, ("result", "failure")) is None
    assert stack.objects(node_id) == []


def test_drained_worker_finishes_its_node_and_ends(stack, shirt, big):
    with stack.worker("model", "cutout", ARTIWAY_DRAIN_S="60") as process:
        held = stack.submit("model", "style", {"product": stack.upload(big)}, style="oil")
        until(lambda: stack.is_claimed(held))
        stack.internal.is_draining = True
        until(lambda: stack.internal.of("beat")[-1]["slots"] == 0)
        refused = stack.submit("cutout", "cutout", {"product": stack.upload(shirt)})
        assert process.wait(60) == 0
    assert stack.end_of(held)["type"] == "result"
    assert [call["nodeId"] for call in stack.internal.of("claim")] == [held]
    assert stack.internal.calls[-1]["action"] == "release"
    # A queue delivers a message once before it is a dead letter: the next worker gets this one.
    (left,) = stack.sqs.receive_message(QueueUrl=stack.queues["cutout"])["Messages"]
    assert json.loads(left["Body"])["data"]["nodeId"] == refused


def test_next_attempt_succeeds_after_a_killed_worker(stack, shirt, big):
    key = stack.upload(big)
    with stack.worker("model") as process:
        node_id = stack.submit("model", "style", {"product": key}, style="oil")
        until(lambda: stack.is_claimed(node_id))
        process.kill()
        process.wait()
    assert stack.is_empty("model")  # the claim deleted the message; only the lease refers to the node
    with stack.worker("cutout"):
        again = stack.submit("cutout", "cutout", {"product": stack.upload(shirt)}, attempt=2)
        assert stack.end_of(again)["data"]["attempt"] == 2
    assert [call["nodeId"] for call in stack.internal.of("claim")] == [node_id, again]
