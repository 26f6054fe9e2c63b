"""Moves the pictures of an attempt by the addresses that it holds: retries, and new addresses where old ones ended."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from artiway.tasks.contract import OutputRef
from worker.attempt import Attempt
from worker.logs import Logger
from worker.ports import AddressRefused, ObjectExists, Objects, ServiceFailed

logger = Logger("transfer")
T = TypeVar("T")
PAUSES_S = (0.2, 0.8, 2.0)


class Transfer:
    def __init__(self, objects: Objects, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._objects, self._sleep = objects, sleep

    def read(self, attempt: Attempt, key: str, *, max_bytes: int, renew: Callable[[], object]) -> bytes:
        def read(url: str, _tries: int) -> bytes:
            return self._objects.read(url, max_bytes=max_bytes, check=attempt.check)

        return self._repeat(attempt, key, read, renew)

    def write(self, attempt: Attempt, output: OutputRef, data: bytes, *, renew: Callable[[], object]) -> None:
        def write(url: str, tries: int) -> None:
            try:
                self._objects.write(url, data, output.headers, check=attempt.check)
            except ObjectExists:
                # An earlier try without an answer was stored: S3 stores whole objects only, and replaces none.
                if not tries:
                    raise

        self._repeat(attempt, output.key, write, renew)

    def _repeat(self, attempt: Attempt, key: str, call: Callable[[str, int], T], renew: Callable[[], object]) -> T:
        """Retry what may pass. A refused address is renewed once, with the lease; a second refusal is final."""
        is_renewed = False
        failures = 0
        while True:
            attempt.check()
            try:
                return call(attempt.url(key), failures)
            except AddressRefused as error:
                if is_renewed:
                    raise ServiceFailed(f"address refused: {error}") from error
                is_renewed = True
                logger.info("address renewed", node_id=attempt.node.node_id, reason=str(error))
                renew()
            except ServiceFailed as error:
                if failures == len(PAUSES_S):
                    raise
                logger.warning("transfer repeated", node_id=attempt.node.node_id, error=str(error))
                self._sleep(PAUSES_S[failures] * random.uniform(0.7, 1.3))  # noqa: S311 (jitter)
                failures += 1
