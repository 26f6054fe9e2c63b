"""redis-py's client with the breaker. Imported with the first connection."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import ConnectionError, TimeoutError  # noqa: A004

from artiway.platform.breaker import Breaker


@contextlib.contextmanager
def _resting(breaker: Breaker) -> Iterator[None]:
    """Every request passes here, so callers wait for a hanging server once."""
    if breaker.is_silent():
        raise ConnectionError("Redis did not answer a moment ago")
    try:
        yield
    except (ConnectionError, TimeoutError):
        breaker.fall_silent()
        raise


class RestingPipeline(Pipeline):
    breaker: Breaker

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        with _resting(self.breaker):
            return super().execute(raise_on_error)


class RestingRedis(Redis):
    breaker: Breaker

    def resting(self) -> AbstractContextManager[None]:
        """For requests that do not pass through this client's methods."""
        return _resting(self.breaker)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        with _resting(self.breaker):
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> RestingPipeline:
        pipeline = RestingPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipeline.breaker = self.breaker
        return pipeline
