"""Health checks and the guard's readings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.once import once
from artiway.bootstrap.scheduling import operations

if TYPE_CHECKING:
    from artiway.health.service import FrontDoor, Guard, HealthService


@once
def health() -> HealthService:
    from artiway.health.checks import PostgresCheck, RedisCheck
    from artiway.health.service import HealthService

    return HealthService({"postgres": PostgresCheck(base.service_database()), "redis": RedisCheck(base.redis())})


@once
def front_door() -> FrontDoor:
    import time

    from artiway.health.client import get_health
    from artiway.health.service import FrontDoor

    return FrontDoor(base.settings().health_url, get_health, time.monotonic)


@once
def guard() -> Guard:
    from artiway.health.meters import RedisMeters
    from artiway.health.model import Meter
    from artiway.health.service import Guard, waiting_nodes
    from artiway.outbox.repository import PostgresStore

    settings, redis = base.settings(), RedisMeters(base.redis())
    outbox_age_s = PostgresStore(base.service_database()).oldest_unsent_age_s
    return Guard(
        health(),
        [
            Meter("outboxOldest", outbox_age_s, settings.guard_outbox_s, "s"),
            Meter("nodesWaiting", waiting_nodes(operations().lanes), settings.guard_waiting, "nodes"),
            Meter("redisMemory", redis.memory_percent, settings.guard_redis_memory_percent, "%"),
            Meter("redisConnections", redis.connections, settings.guard_redis_connections, "connections"),
        ],
    )
