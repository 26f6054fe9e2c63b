"""Adapters for SQS, S3 and Lambda. The standard AWS_* variables point boto3 at AWS or at an emulator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError

from artiway.tasks import contract
from artiway.tasks.contract import Node, Terms, Wire, WorkHint
from worker.model import WorkMessage
from worker.ports import ObjectMissing, ObjectTooLarge, ServiceFailed

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

Answer = TypeVar("Answer", bound=Wire)
CONNECT_S, READ_S = 3, 10
CHUNK = 1024 * 1024
BASE = {"connect_timeout": CONNECT_S, "retries": {"mode": "standard", "total_max_attempts": 3}}


def config(read_s: float = READ_S, connections: int = 32) -> Config:
    return Config(read_timeout=read_s, max_pool_connections=connections, **BASE)  # type: ignore[arg-type]


class SqsWorkQueue:
    """Receives one message at a time by long polling, so that a worker receives only messages that it can claim."""

    def __init__(self, queue_urls: Mapping[str, str]) -> None:
        self._urls = queue_urls
        self._sqs: SQSClient = boto3.client("sqs", config=config(read_s=30))

    def receive(self, node_type: str, wait_s: int) -> WorkMessage | None:
        try:
            answer = self._sqs.receive_message(
                QueueUrl=self._urls[node_type], MaxNumberOfMessages=1, WaitTimeSeconds=wait_s
            )
        except (ClientError, BotoCoreError) as error:
            raise ServiceFailed(f"receive: {error}") from error
        for message in answer.get("Messages", []):
            return read_message(node_type, message["ReceiptHandle"], message["Body"])
        return None

    def delete(self, message: WorkMessage) -> None:
        try:
            self._sqs.delete_message(QueueUrl=self._urls[message.node_type], ReceiptHandle=message.receipt)
        except (ClientError, BotoCoreError) as error:
            raise ServiceFailed(f"delete: {error}") from error

    def make_visible(self, message: WorkMessage) -> None:
        try:
            self._sqs.change_message_visibility(
                QueueUrl=self._urls[message.node_type], ReceiptHandle=message.receipt, VisibilityTimeout=0
            )
        except (ClientError, BotoCoreError) as error:
            raise ServiceFailed(f"change visibility: {error}") from error


def read_message(node_type: str, receipt: str, body: str) -> WorkMessage:
    try:
        envelope = json.loads(body)
        hint = WorkHint.model_validate(envelope["data"])
        return WorkMessage(receipt, node_type, hint, str(envelope.get("traceId") or ""))
    except (ValueError, KeyError, TypeError, ValidationError):
        return WorkMessage(receipt, node_type, None)


class SqsProgressQueue:
    def __init__(self, queue_url: str) -> None:
        self._url = queue_url
        self._sqs: SQSClient = boto3.client("sqs", config=config())

    def send(self, envelope: Mapping[str, Any], *, tenant_id: str) -> None:
        try:
            # On a standard queue the group gives fair queueing between tenants and no order.
            self._sqs.send_message(QueueUrl=self._url, MessageBody=json.dumps(envelope), MessageGroupId=tenant_id)
        except (ClientError, BotoCoreError) as error:
            raise ServiceFailed(f"send: {error}") from error


class LambdaInternal:
    def __init__(self, function: str) -> None:
        self._function = function
        self._lambda: LambdaClient = boto3.client("lambda", config=config())

    def register(self, worker: Mapping[str, Any]) -> Terms:
        return self._call(contract.Register.model_validate(worker), Terms)

    def claim(self, hint: contract.WorkHint, *, worker_id: str) -> Node | None:
        request = contract.Claim(**hint.model_dump(), worker_id=worker_id)
        return self._call(request, contract.ClaimAnswer).node

    def beat(self, worker: Mapping[str, Any], nodes: Sequence[Node]) -> contract.BeatAnswer:
        return self._call(contract.Beat.model_validate({**worker, "nodes": held_nodes(nodes)}), contract.BeatAnswer)

    def release(self, *, worker_id: str, nodes: Sequence[Node]) -> int:
        return self._call(
            contract.Release(worker_id=worker_id, nodes=held_nodes(nodes)), contract.ReleaseAnswer
        ).released

    def _call(self, request: contract.Call, model: type[Answer]) -> Answer:
        try:
            answer = self._lambda.invoke(FunctionName=self._function, Payload=request.model_dump_json(by_alias=True))
            body = answer["Payload"].read()
        except (ClientError, BotoCoreError, OSError) as error:
            raise ServiceFailed(f"{request.action}: {error}") from error
        if answer.get("FunctionError"):
            raise ServiceFailed(f"{request.action}: {body[:300]!r}")
        try:
            return model.model_validate_json(body)
        except ValidationError as error:
            raise ServiceFailed(f"{request.action}: the answer does not match the contract: {error}") from error


def held_nodes(nodes: Sequence[Node]) -> list[contract.HeldNode]:
    return [contract.HeldNode(node_id=node.node_id, attempt=node.attempt) for node in nodes]


class S3Store:
    """Reads weights. The worker's role reads nothing else: pictures have addresses (worker/objects.py)."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        self._s3: S3Client = boto3.client("s3", config=config(read_s=30))

    def read(self, key: str, target: BinaryIO, *, max_bytes: int, bucket: str = "") -> None:
        """botocore raises if fewer bytes arrive than the answer announces."""
        try:
            answer = self._s3.get_object(Bucket=bucket or self._bucket, Key=key)
            if answer["ContentLength"] > max_bytes:
                answer["Body"].close()
                raise ObjectTooLarge(f"{key} has {answer['ContentLength']} bytes")
            target.writelines(answer["Body"].iter_chunks(CHUNK))
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404", "NoSuchBucket"):
                raise ObjectMissing(key) from error
            raise ServiceFailed(f"read: {error}") from error
        except (BotoCoreError, OSError) as error:
            raise ServiceFailed(f"read: {error}") from error
