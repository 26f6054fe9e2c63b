"""Parameters of AWS Systems Manager, for values that are too long for the environment of a function (4 KB)."""

from __future__ import annotations

import time
from collections.abc import Callable

from artiway.platform import aws

KEPT_S = 300


class Parameter:
    """Read on first use and again every five minutes, so that a deployment takes effect in running functions."""

    def __init__(self, name: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self._name, self._now = name, now
        self._text, self._read_at = "", float("-inf")

    def text(self) -> str:
        if self._now() - self._read_at >= KEPT_S:
            self._text = str(aws.client("ssm").get_parameter(Name=self._name)["Parameter"]["Value"])
            self._read_at = self._now()
        return self._text
