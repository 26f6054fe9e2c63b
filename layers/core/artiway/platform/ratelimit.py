"""Token buckets in Redis: one call counts a request and takes a token from each of its buckets, or from none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from artiway.platform import redis_keys, scripts
from artiway.platform.breaker import Breaker
from artiway.platform.redis import RedisAway
from artiway.platform.request_counts import RequestCounter

if TYPE_CHECKING:
    from redis import Redis

MOST_BUCKETS = 8
MOST_TOKENS = 1_000_000

Bucket = tuple[str, int, int]  # key, tokens a second, burst


@dataclass(frozen=True)
class Decision:
    """The values of the RateLimit headers. `reset_s` is the time until the limiting bucket is full again."""

    is_allowed: bool
    limit: int
    remaining: int
    reset_s: int
    retry_after_s: int


class RateLimiter:
    """Without Redis every request passes and a metric counts it: the limiter must not stop the service."""

    def __init__(
        self,
        redis: Redis,
        *,
        breaker: Breaker | None = None,
        requests: RequestCounter | None = None,
        server_now_ms: Callable[[], int] | None = None,
    ) -> None:
        self._take = scripts.load(redis, "take_tokens")
        self._requests = requests or RequestCounter(redis)
        self._guarded = (breaker or Breaker()).guard("RateLimiterAway")
        self._server_now_ms = server_now_ms

    def take(self, buckets: Sequence[Bucket]) -> Decision:
        _check(buckets)
        keys = [*(redis_keys.rate(key) for key, _, _ in buckets), self._requests.key()]
        now_ms: str | int = "" if self._server_now_ms is None else self._server_now_ms()
        sizes = [number for _, rate_per_s, burst in buckets for number in (rate_per_s, burst)]
        try:
            with self._guarded:
                is_allowed, index, remaining, reset_ms, retry_ms = self._take(keys, [now_ms, *sizes])
                self._requests.close_gap()
        except RedisAway:
            self._requests.note_gap()
            limit = min(burst for _, _, burst in buckets)
            return Decision(is_allowed=True, limit=limit, remaining=limit, reset_s=0, retry_after_s=0)
        return Decision(
            is_allowed=bool(is_allowed),
            limit=buckets[index - 1][2],
            remaining=remaining,
            reset_s=-(-reset_ms // 1000),
            retry_after_s=-(-retry_ms // 1000),
        )

    def count_failure(self, *, is_counted: bool) -> None:
        """Count an answer with a 5xx status. `is_counted`: `take` has counted the request."""
        try:
            with self._guarded:
                self._requests.count_failure(is_counted=is_counted)
        except RedisAway:
            self._requests.note_gap()


def _check(buckets: Sequence[Bucket]) -> None:
    """Check before the script runs: Redis does not roll back a script that fails."""
    if not 1 <= len(buckets) <= MOST_BUCKETS:
        raise ValueError(f"take from 1 to {MOST_BUCKETS} buckets")
    for key, rate_per_s, burst in buckets:
        if not key or not 1 <= rate_per_s <= MOST_TOKENS or not 1 <= burst <= MOST_TOKENS:
            raise ValueError(f"a bucket has a key, a rate and a burst of 1 to {MOST_TOKENS}")
