"""Starts MiniStack with patches. It runs in the emulator's own environment, whose packages are pinned by hash.

- A function's error keeps its name and text: Step Functions catches errors by name.
- A new deployment adopts a bucket whose objects are on disk; MiniStack would refuse its name.
- A key survives a restart, so issued tokens stay valid and stored secrets can be decrypted.
- S3 answers signed requests only, as a private bucket does. The key of the workers reads models/* and nothing else.
- Calls start without polling delays: a long poll ends when a message arrives, a consumer is called when its queue has
  messages, an execution starts at once, and calls to functions reuse connections.
- Consumers cost less: a pass over them skips empty queues, and messages that arrive while a function is busy wait a
  moment for others, so that one call handles them.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import math
import os
import re
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import serialization
from ministack.app import main  # type: ignore[import-not-found]
from ministack.core import concurrency, sigv4  # type: ignore[import-not-found]
from ministack.services import kms, lambda_svc, s3, sqs, stepfunctions  # type: ignore[import-not-found]
from ministack.services.cloudformation import provisioners  # type: ignore[import-not-found]

Json = dict[str, Any]
Answer = tuple[int, Json, Any]
# The access key of the local stack.
ACCESS_KEY = "test"
# The key of the workers has the permissions of their role in S3.
WORKER_KEY = "worker"
SECRETS = {ACCESS_KEY: "test", WORKER_KEY: "worker"}
MODEL = re.compile(r"/[^/]+/models/.+")
# Shorter than the Lambda server's time-out for idle connections, so that a reused connection is still open.
IDLE_SECONDS = 20
# A long poll also checks when a delay or visibility timeout ends, and at this interval: timeouts may be changed.
POLL_SECONDS = 1.0
SHORTEST_SECONDS = 0.02
# While a function handles this many batches of a queue, one for each core, a message waits for others this long.
BATCHES_AT_ONCE = os.cpu_count() or 1
GATHER_SECONDS = 0.03
# MiniStack sleeps this long before the first state of an execution. Waits and retries of a machine are longer.
START_DELAY_SECONDS = 0.15


class Connections:
    """Open connections to the Lambda server, each used by one call at a time."""

    def __init__(self) -> None:
        self._idle: deque[tuple[float, http.client.HTTPConnection]] = deque()

    def take(self, host: str, port: int | None) -> http.client.HTTPConnection:
        horizon = time.monotonic() - IDLE_SECONDS
        while self._idle:
            try:
                since, connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if since > horizon:
                return connection
            connection.close()
        return http.client.HTTPConnection(host, port)

    def give_back(self, connection: http.client.HTTPConnection) -> None:
        self._idle.append((time.monotonic(), connection))


connections = Connections()


def call_function(function: Json, event: Json, url: str, request_id: str) -> Json:
    """Call a function through the Lambda server, which applies the function's time-out."""
    target = urlsplit(url)
    connection = connections.take(target.hostname or "", target.port)
    headers = {"Content-Type": "application/json", "X-Amzn-Lambda-Request-Id": request_id}
    try:
        connection.request("POST", target.path, json.dumps(event).encode(), headers)
        answer = connection.getresponse()
        body = json.loads(answer.read() or b"null")
    except (OSError, http.client.HTTPException, ValueError) as error:
        connection.close()
        return {"body": {"errorType": "ServiceException", "errorMessage": str(error)}, "error": True}
    connections.give_back(connection)
    return {"body": body} if answer.status == http.HTTPStatus.OK else {"body": body, "error": True}


class Arrivals:
    """Wakes a long poll of a queue for each message. The event loop and other threads send messages."""

    def __init__(self) -> None:
        self._waiting: dict[int, set[asyncio.Event]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._send, self._receive = sqs._act_send_message, sqs._act_receive_message  # noqa: SLF001

    def send(self, data: Json, url: str) -> Json:
        sent: Json = self._send(data, url)
        queue = sqs._get_q(data.get("QueueUrl", url))  # noqa: SLF001
        if self._waiting.get(id(queue)):
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._wake_one, id(queue))
        return sent

    def _wake_one(self, queue_id: int) -> None:
        asleep = (arrived for arrived in self._waiting.get(queue_id, ()) if not arrived.is_set())
        if arrived := next(asleep, None):
            arrived.set()

    async def receive(self, data: Json, url: str) -> Json:
        queue = sqs._get_q(data.get("QueueUrl", url), "sqs:ReceiveMessage")  # noqa: SLF001
        requested = data.get("WaitTimeSeconds")
        wait = int(queue["attributes"].get("ReceiveMessageWaitTimeSeconds", "0") if requested is None else requested)
        deadline = time.monotonic() + wait
        self._loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        waiting = self._waiting.setdefault(id(queue), set())
        waiting.add(arrived)  # before the first receive, so that no message arrives between the two
        try:
            while True:
                arrived.clear()
                found: Json = await self._receive({**data, "WaitTimeSeconds": 0}, url)
                remaining = deadline - time.monotonic()
                if found or remaining <= 0:
                    return found
                due = (
                    min((message["visible_at"] for message in list(queue["messages"])), default=math.inf) - time.time()
                )
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(arrived.wait(), min(remaining, POLL_SECONDS, max(due, SHORTEST_SECONDS)))
        finally:
            waiting.discard(arrived)


class Batches:
    """Fills a batch up to the batch size of its event source; MiniStack stops at ten messages."""

    def __init__(self) -> None:
        self._receive = sqs._receive_messages_for_esm  # noqa: SLF001

    def receive(self, url: str, wanted: int) -> list[Json]:
        batch: list[Json] = []
        while len(batch) < wanted and (found := self._receive(url, wanted - len(batch))):
            batch += found
        return batch


class Consumers:
    """The event sources that have something to do. MiniStack would look into every queue after each message."""

    def __init__(self) -> None:
        self._all = lambda_svc._iter_all_esms  # noqa: SLF001
        self._timer: threading.Timer | None = None

    def waiting(self) -> Iterator[tuple[str, str, Json]]:
        for account, region, source in self._all():
            queue = sqs._queue_by_arn(source.get("EventSourceArn", ""))  # noqa: SLF001
            if queue is None or (queue["messages"] and not self._is_gathering(source, queue)):
                yield account, region, source

    def _is_gathering(self, source: Json, queue: Json) -> bool:
        if lambda_svc._esm_inflight.get(source["UUID"], 0) < BATCHES_AT_ONCE:  # noqa: SLF001
            return False
        now = time.time()
        visible = [message["visible_at"] for message in list(queue["messages"]) if message["visible_at"] <= now]
        if not visible or len(visible) >= source.get("BatchSize", 10):
            return False
        due = min(visible) + GATHER_SECONDS - now
        if due <= 0:
            return False
        # A batch that ends wakes the poller too; where calls last long, this does.
        if self._timer is None or not self._timer.is_alive():
            self._timer = threading.Timer(due, concurrency.esm_wake.set)
            self._timer.daemon = True
            self._timer.start()
        return True


class ClockWithoutStartDelay:
    """The `time` module for Step Functions, without the sleep before each execution."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    @staticmethod
    def sleep(seconds: float) -> None:
        if seconds > START_DELAY_SECONDS:
            time.sleep(seconds)


def create_bucket(logical_id: str, properties: Json, stack_name: str) -> tuple[str, Json]:
    name = properties.get("BucketName")
    kept = s3._buckets.pop(name, None)  # noqa: SLF001
    made: tuple[str, Json] = provisioners._s3_create(logical_id, properties, stack_name)  # noqa: SLF001
    if kept is not None:
        s3._buckets[name]["objects"] = kept["objects"]  # noqa: SLF001
    return made


def create_key(logical_id: str, properties: Json, stack_name: str) -> tuple[str, Json]:
    made_id, _ = provisioners._kms_key_create(logical_id, properties, stack_name)  # noqa: SLF001
    record = kms._resolve_key(made_id)  # noqa: SLF001
    file = Path(os.environ["ARTIWAY_KEYS"]) / f"{logical_id}.pem"
    if not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        is_symmetric = "_symmetric_key" in record
        material = record["_symmetric_key"] if is_symmetric else record["_private_key"].private_bytes(*form)
        partial = file.with_suffix(".partial")
        partial.write_bytes(f"{made_id}\n".encode() + material)
        partial.rename(file)  # atomic: this process may be killed at any time
    else:
        key_id, _, material = file.read_bytes().partition(b"\n")
        kept_id = key_id.decode()
        if "_symmetric_key" in record:
            record["_symmetric_key"] = material
        else:
            kms._set_asymmetric_material(record, serialization.load_pem_private_key(material, password=None))  # noqa: SLF001
        record |= {"KeyId": kept_id, "Arn": record["Arn"].replace(made_id, kept_id)}
        kms._keys[kept_id] = kms._keys.pop(made_id)  # noqa: SLF001
    return record["KeyId"], {"Arn": record["Arn"], "KeyId": record["KeyId"]}


def signature_fault(method: str, path: str, headers: Json, query: Json, body: bytes) -> tuple[str, str] | None:
    """Code and message for an S3 request without a valid signature. MiniStack checks presigned URLs, not headers."""
    is_presigned = "X-Amz-Signature" in query
    if is_presigned and query.get("X-Amz-Credential", [""])[0].startswith(f"{WORKER_KEY}/"):
        return "AccessDenied", "Access Denied"
    if is_presigned and query.get("X-Amz-Algorithm") == ["AWS4-HMAC-SHA256"]:
        return None  # MiniStack checks access key, signature and expiry of a presigned URL
    if is_presigned or not headers.get("authorization", "").startswith("AWS4-HMAC-SHA256 "):
        return "AccessDenied", "Access Denied"
    signature = sigv4.parse_header_signature(headers)
    if isinstance(signature, tuple):
        return "AccessDenied", "Access Denied"
    if signature.access_key_id not in SECRETS:
        return "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."
    if signature.access_key_id == WORKER_KEY and not (method == "GET" and MODEL.fullmatch(path)):
        return "AccessDenied", "Access Denied"
    if (late := sigv4.request_time_failure(signature)) is not None:
        return "RequestTimeTooSkewed", late[1]
    sent = sigv4.uri_encode(path, encode_slash=False)
    mismatch: tuple[str, str] | None = sigv4.header_signature_failure(
        signature, SECRETS[signature.access_key_id], method, sent, query, headers, body
    )
    return mismatch


def signed_only(handle: Callable[..., Awaitable[Answer]]) -> Callable[..., Awaitable[Answer]]:
    """MiniStack's S3 handler, restricted to requests with a valid signature."""

    async def handle_request(
        method: str, path: str, headers: Json, body: bytes, query_params: Json, **more: Any
    ) -> Answer:
        # MiniStack rewrites the path of a virtual-hosted request; the client signed the original path.
        sent = more.get("signed_path") or path
        fault = None if more.get("internal") else signature_fault(method, sent, headers, query_params, body)
        if fault is not None:
            code, message = fault
            refused: Answer = s3._error(code, message, http.HTTPStatus.FORBIDDEN, path)  # noqa: SLF001
            return refused
        return await handle(method, path, headers, body, query_params, **more)

    return handle_request


if __name__ == "__main__":
    arrivals = Arrivals()
    sqs._act_send_message = sqs._HANDLERS["SendMessage"] = arrivals.send  # noqa: SLF001
    sqs._act_receive_message = sqs._HANDLERS["ReceiveMessage"] = arrivals.receive  # noqa: SLF001
    sqs._receive_messages_for_esm = Batches().receive  # noqa: SLF001
    lambda_svc._iter_all_esms = Consumers().waiting  # noqa: SLF001
    lambda_svc._ESM_IDLE_WAKE_GAP_SECONDS = 0  # noqa: SLF001
    # The template has no such source, and each message would search for one.
    lambda_svc._poll_kinesis = lambda_svc._poll_dynamodb_streams = lambda: False  # noqa: SLF001
    stepfunctions.time = ClockWithoutStartDelay()
    lambda_svc._execute_function_proxy = call_function  # noqa: SLF001
    s3.handle_request = signed_only(s3.handle_request)
    provisioners.s3_bucket_name_conflict = lambda _name: None
    provisioners._RESOURCE_HANDLERS["AWS::S3::Bucket"]["create"] = create_bucket  # noqa: SLF001
    provisioners._RESOURCE_HANDLERS["AWS::KMS::Key"]["create"] = create_key  # noqa: SLF001
    main()
