"""Settings, databases, Redis and the clock, which every feature uses. Made on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from artiway.bootstrap.once import once
from artiway.platform.settings import Settings

if TYPE_CHECKING:
    from pydantic import SecretStr
    from redis import Redis

    from artiway.platform.breaker import Breaker
    from artiway.platform.cache import Cache
    from artiway.platform.clock import Clock
    from artiway.platform.database import Database
    from artiway.platform.lock import Locks
    from artiway.platform.ratelimit import RateLimiter


@once
def settings() -> Settings:
    return Settings()


@once
def database() -> Database:
    """As `artiway_app`: the rows of one tenant."""
    return connect(settings().database_url)


@once
def service_database() -> Database:
    """As `artiway_service`: for functions that work across tenants."""
    return connect(settings().service_database_url)


@once
def reader_database() -> Database:
    """As `artiway_service`, for reads that may be a little old: a replica, or the writer where there is none."""
    from pydantic import SecretStr

    from artiway.platform.database import reader_or_writer

    return reader_or_writer(
        service_database,
        settings().service_database_url.get_secret_value(),
        host=settings().reader_host,
        connect=lambda url: connect(SecretStr(url), is_read_only=True),
    )


def connect(url: SecretStr, *, is_read_only: bool = False) -> Database:
    from artiway.platform.database import Database

    return Database(
        url.get_secret_value(),
        connect_timeout_s=settings().database_connect_timeout_s,
        begin_timeout_s=settings().database_begin_timeout_s,
        statement_timeout_ms=settings().database_statement_timeout_ms,
        request_timeout_s=settings().database_request_timeout_s,
        is_read_only=is_read_only,
    )


@once
def redis() -> Redis:
    from artiway.platform import redis as platform_redis

    return platform_redis.connect(
        settings().redis_url.get_secret_value(),
        timeout_s=settings().redis_timeout_s,
        connect_timeout_s=settings().redis_connect_timeout_s,
        breaker=redis_breaker(),
    )


@once
def clock() -> Clock:
    from artiway.platform.clock import SystemClock

    return SystemClock()


@once
def pause() -> Callable[[float], None]:
    """Waits for a number of seconds."""
    import time

    return time.sleep


@once
def cache() -> Cache:
    from artiway.platform.cache import Cache, Limits

    limits = Limits(
        entries=settings().cache_entries,
        first_level_s=settings().cache_first_level_s,
        sync_s=settings().cache_sync_s,
        load_s=settings().cache_load_s,
        wait_s=settings().cache_wait_s,
    )
    return Cache(redis(), limits, breaker=redis_breaker())


@once
def redis_breaker() -> Breaker:
    """Shared by all users of the Redis client."""
    from artiway.platform.breaker import Breaker

    return Breaker(rest_s=settings().redis_rest_s)


@once
def locks() -> Locks:
    from artiway.platform.lock import Locks

    return Locks(redis(), breaker=redis_breaker())


@once
def rate_limiter() -> RateLimiter:
    from artiway.platform.ratelimit import RateLimiter

    return RateLimiter(redis(), breaker=redis_breaker())
