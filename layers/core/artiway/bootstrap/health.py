"""Health checks and the guard's readings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.once import once
from artiway.bootstrap.scheduling import operations

if TYPE_CHECKING:
    from artiway.health.service import Guard, HealthService


@once
def health() -> HealthService:
    from artiway.health.service import HealthService
    from artiway.platform import redis as platform_redis

    def postgres_answers() -> None:
        with base.service_database().service_transaction():
            pass

    def redis_answers() -> None:
        with platform_redis.translated():
            base.redis().ping()

    return HealthService({"postgres": postgres_answers, "redis": redis_answers})


@once
def guard() -> Guard:
    from artiway.health.service import Guard, Meter
    from artiway.outbox.repository import PostgresStore
    from artiway.platform import redis as platform_redis

    def waiting() -> int:
        return sum(lane.depth for lane in operations().lanes())

    def redis_memory() -> float:
        with platform_redis.translated():
            found = base.redis().info("memory")
        return 100 * float(found["used_memory"]) / float(found["maxmemory"] or found["total_system_memory"])

    def redis_connections() -> int:
        with platform_redis.translated():
            return int(base.redis().info("clients")["connected_clients"])

    oldest = PostgresStore(base.service_database()).oldest_unsent_age_s
    return Guard(
        health(),
        [
            Meter("outboxOldest", oldest, base.settings().guard_outbox_s, "s"),
            Meter("nodesWaiting", waiting, base.settings().guard_waiting, "nodes"),
            Meter("redisMemory", redis_memory, base.settings().guard_redis_memory_percent, "%"),
            Meter("redisConnections", redis_connections, base.settings().guard_redis_connections, "connections"),
        ],
    )
