"""Secrets of AWS Secrets Manager, read again every five minutes so that a rotated secret takes effect."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from artiway.platform import aws

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

KEPT_S = 300


class Secret:
    def __init__(self, arn: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self._arn, self._now = arn, now
        self._text, self._read_at = "", float("-inf")

    def text(self) -> str:
        if self._now() - self._read_at >= KEPT_S:
            client: SecretsManagerClient = aws.client("secretsmanager")
            self._text = client.get_secret_value(SecretId=self._arn)["SecretString"]
            self._read_at = self._now()
        return self._text


class OptionalSecret(Secret):
    """A secret that some stacks do not have: without an ARN its text is empty."""

    def text(self) -> str:
        return super().text() if self._arn else ""
