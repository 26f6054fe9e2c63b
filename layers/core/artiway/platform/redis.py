"""The Redis client. Redis may be lost: every call has a short timeout, and a failure raises RedisAway."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from artiway.errors import Unavailable
from artiway.platform import iam_token

if TYPE_CHECKING:
    from redis import Redis

    from artiway.platform.breaker import Breaker

RETRY_AFTER_S = 2
# Answers of a server that cannot serve now: a script runs too long or was stopped, a disk or a replica is missing.
PASSING = ("BUSY", "MISCONF", "NOREPLICAS", "Script killed")


class RedisAway(Unavailable):
    code = "PLATFORM_503_REDIS"

    def __init__(self, message: str = "Redis is away; try again") -> None:
        super().__init__(message, retry_after_s=RETRY_AFTER_S)


class RedisFull(RedisAway):
    """Redis is at its `maxmemory` and refuses writes that need memory."""

    code = "PLATFORM_503_REDIS_FULL"

    def __init__(self) -> None:
        super().__init__("Redis has no memory left; try again")


def connect(
    url: str, *, timeout_s: float, connect_timeout_s: float | None = None, breaker: Breaker | None = None
) -> Redis:
    """A lazy client: it connects with the first command. All its users share the breaker."""
    from redis.backoff import NoBackoff
    from redis.exceptions import ConnectionError  # noqa: A004
    from redis.retry import Retry

    from artiway.platform.breaker import Breaker
    from artiway.platform.redis_client import RestingRedis

    credentials = _iam_credentials(url)
    made = RestingRedis.from_url(
        url if credentials is None else url.replace(f"{credentials.user}@", "", 1),
        credential_provider=credentials,
        decode_responses=True,
        socket_connect_timeout=connect_timeout_s or timeout_s,
        socket_timeout=timeout_s,
        health_check_interval=30,
        # One retry for a connection that died idle. A timeout is not retried.
        retry=Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
    )
    client = cast("RestingRedis", made)
    client.breaker = breaker or Breaker(rest_s=0)
    return client


def _iam_credentials(url: str) -> _IamCredentials | None:
    """An address with a user and no password uses IAM authentication."""
    parts = urlsplit(url)
    region = os.environ.get("AWS_REGION")
    if not parts.username or parts.password or region is None:
        return None
    return _IamCredentials(parts.username, region)


class _IamCredentials:
    """Called at each new connection, so that the token has not expired. The cache has the name of its user."""

    def __init__(self, user: str, region: str) -> None:
        self.user, self._region = user, region

    def get_credentials(self) -> tuple[str, str]:
        token = iam_token.cache_token(cache=self.user, user=self.user, region=self._region, at=datetime.now(UTC))
        return self.user, token

    async def get_credentials_async(self) -> tuple[str, str]:
        return self.get_credentials()


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn redis-py's errors about the server into RedisAway or RedisFull. An error of a command stays as it is."""
    from redis.exceptions import (
        ClusterDownError,
        ConnectionError,  # noqa: A004
        OutOfMemoryError,
        ReadOnlyError,
        ResponseError,
        TimeoutError,  # noqa: A004
        TryAgainError,
    )

    try:
        yield
    except OutOfMemoryError as error:
        raise RedisFull from error
    except (ConnectionError, TimeoutError, ReadOnlyError, ClusterDownError, TryAgainError) as error:
        raise RedisAway from error
    except ResponseError as error:
        if str(error).startswith(PASSING):
            raise RedisAway from error
        raise
