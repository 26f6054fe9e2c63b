"""Redis: an index that may vanish. Every call has a short limit, and its absence is an answer, not a crash."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from artiway.errors import Unavailable

if TYPE_CHECKING:
    from redis import Redis

RETRY_AFTER_S = 2


class RedisAway(Unavailable):
    code = "PLATFORM_503_REDIS"

    def __init__(self) -> None:
        super().__init__("Redis is away; try again", retry_after_s=RETRY_AFTER_S)


def connect(url: str, *, timeout_s: float) -> Redis:
    """A lazy client: nothing is opened before the first command."""
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return Redis.from_url(
        url,
        decode_responses=True,
        socket_connect_timeout=timeout_s,
        socket_timeout=timeout_s,
        health_check_interval=30,
        retry=Retry(NoBackoff(), 1),  # one fresh connection for one that died idle
    )


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn the vendor's absence into ours."""
    from redis.exceptions import ConnectionError, TimeoutError  # noqa: A004

    try:
        yield
    except (ConnectionError, TimeoutError) as error:
        raise RedisAway from error
