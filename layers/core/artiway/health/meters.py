"""What Redis reports of itself with INFO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.platform.redis import translated

if TYPE_CHECKING:
    from redis import Redis


class RedisMeters:
    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def memory_percent(self) -> float:
        """Used memory as a share of `maxmemory`, or of the machine's memory where no limit is set."""
        with translated():
            info = self._redis.info("memory")
        return 100 * float(info["used_memory"]) / float(info["maxmemory"] or info["total_system_memory"])

    def connections(self) -> int:
        with translated():
            return int(self._redis.info("clients")["connected_clients"])
