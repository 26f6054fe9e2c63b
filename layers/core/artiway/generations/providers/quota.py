"""Requests and tokens per minute of each provider, as buckets in Redis that all workers share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from artiway.generations.providers.model import Target
from artiway.platform import redis_keys, scripts
from artiway.platform.breaker import Breaker
from artiway.platform.redis import RedisAway

if TYPE_CHECKING:
    from redis import Redis

LUA = "artiway.generations.providers.lua"


class RedisQuota:
    """Without Redis every request passes and a metric counts it: the provider has the same limits of its own."""

    def __init__(
        self, redis: Redis, *, breaker: Breaker | None = None, server_now_ms: Callable[[], int] | None = None
    ) -> None:
        self._take = scripts.load(redis, "take_quota", LUA)
        self._return = scripts.load(redis, "return_tokens", LUA)
        self._guarded = (breaker or Breaker()).guard("ProviderQuotaAway")
        self._server_now_ms = server_now_ms

    def take(self, target: Target, tokens: int) -> int:
        """Seconds to wait, or 0 if a request and its tokens were taken."""
        requests, most = target.requests_per_minute or 0, target.tokens_per_minute or 0
        if not requests and not most:
            return 0
        now_ms: str | int = "" if self._server_now_ms is None else self._server_now_ms()
        try:
            with self._guarded:
                wait_ms: int = self._take(
                    [redis_keys.provider_quota(target.provider)], [now_ms, requests, most, tokens]
                )
        except RedisAway:
            return 0
        return math.ceil(wait_ms / 1_000)

    def give_back(self, target: Target, tokens: int) -> None:
        if not target.tokens_per_minute or tokens <= 0:
            return
        # What is lost here comes back within a minute.
        try:
            with self._guarded:
                self._return([redis_keys.provider_quota(target.provider)], [target.tokens_per_minute, tokens])
        except RedisAway:
            return
