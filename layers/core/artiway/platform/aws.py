"""boto3 clients, made on first use: importing boto3 is the slowest part of a cold start."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boto3 import Session

CONNECT_TIMEOUT_S = 2
READ_TIMEOUT_S = 10


@cache
def _session() -> Session:
    import boto3

    return boto3.Session()


@cache
def client(service: str, endpoint: str | None = None, *, retries: int = 3) -> Any:
    """A client with timeouts. The caller annotates its type: `sqs: SQSClient = aws.client("sqs")`."""
    from botocore.config import Config

    config = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"mode": "standard", "max_attempts": retries},
    )
    return _session().client(service, endpoint_url=endpoint, config=config)  # type: ignore[call-overload]


def make_clients(*services: str) -> None:
    """Make clients before they are needed."""
    for service in services:
        client(service)
