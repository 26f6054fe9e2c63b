"""Whether PostgreSQL and Redis answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from artiway.health.model import Check
from artiway.platform.database import Database
from artiway.platform.redis import translated

if TYPE_CHECKING:
    from redis import Redis


class PostgresCheck:
    def __init__(self, database: Database) -> None:
        self._database = database

    def __call__(self) -> None:
        with self._database.service_transaction():
            pass


class RedisCheck:
    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def __call__(self) -> None:
        with translated():
            self._redis.ping()


def with_reader(writer: Database, reader: Database, redis: Redis) -> Mapping[str, Check]:
    """The servers behind the platform. Where no replica is set, the reader is the writer's own connection."""
    checks: dict[str, Check] = {"postgres": PostgresCheck(writer)}
    if reader is not writer:
        checks["postgresReader"] = PostgresCheck(reader)
    return {**checks, "redis": RedisCheck(redis)}
