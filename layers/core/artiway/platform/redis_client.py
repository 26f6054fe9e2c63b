"""redis-py's client with the breaker. Imported with the first connection."""

from __future__ import annotations

from typing import Any

from redis import Redis
from redis.exceptions import ConnectionError, TimeoutError  # noqa: A004

from artiway.platform.breaker import Breaker


class RestingRedis(Redis):
    """Every command passes here, so a request waits for a hanging server once."""

    breaker: Breaker

    def execute_command(self, *args: Any, **options: Any) -> Any:
        if self.breaker.is_silent():
            raise ConnectionError("Redis did not answer a moment ago")
        try:
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except (ConnectionError, TimeoutError):
            self.breaker.fall_silent()
            raise
