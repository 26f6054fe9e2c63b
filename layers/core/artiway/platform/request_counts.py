"""Requests and 5xx answers of each minute, counted in Redis. A minute that was not counted whole has no count."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from artiway.platform import redis_keys
from artiway.platform.logs import Logger
from artiway.platform.redis import RedisAway, translated

if TYPE_CHECKING:
    from redis import Redis

logger = Logger("requests")
KEPT_S = 3_600


class RequestCounter:
    """Counts in the process that answers. After a request that could not be counted, the counts of all minutes up to
    the next reading are dropped."""

    def __init__(self, redis: Redis, *, now: Callable[[], float] = time.time) -> None:
        self._redis, self._now = redis, now
        self._has_gap = False

    def key(self) -> str:
        return redis_keys.requests(int(self._now()) // 60)

    def note_gap(self) -> None:
        self._has_gap = True

    def close_gap(self) -> None:
        """Redis answers again: report that requests are missing from the counts."""
        if self._has_gap:
            self._redis.delete(redis_keys.REQUESTS_SINCE)
            self._has_gap = False

    def count_failure(self, *, is_counted: bool) -> None:
        key = self.key()
        if not is_counted:
            self._redis.hincrby(key, "all", 1)
        self._redis.hincrby(key, "failed", 1)
        self._redis.expire(key, KEPT_S)


class RequestCounts:
    """Reads the counts. `since` is the time from which they are whole: a flush or a gap deletes it, and only a reading
    sets it again."""

    def __init__(self, redis: Redis, *, now: Callable[[], float] = time.time) -> None:
        self._redis, self._now = redis, now

    def of_minute(self, minute: datetime) -> tuple[int, int] | None:
        start_s = int(minute.timestamp())
        try:
            with translated():
                since = self._redis.get(redis_keys.REQUESTS_SINCE)
                if since is None:
                    self._redis.set(redis_keys.REQUESTS_SINCE, str(self._now()), nx=True)
                    return None
                counts = self._redis.hmget(redis_keys.requests(start_s // 60), ["all", "failed"])
                is_whole = since == self._redis.get(redis_keys.REQUESTS_SINCE) and float(since) <= start_s
        except RedisAway:
            logger.warning("requests of a minute not counted")
            return None
        return (int(counts[0] or 0), int(counts[1] or 0)) if is_whole else None
