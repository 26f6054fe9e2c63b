"""Health checks and the guard's readings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.circuits import circuits
from artiway.bootstrap.jobs import run_guard
from artiway.bootstrap.live_settings import service_setting_values
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
def _parts() -> HealthService:
    """The servers of `health()`, and the replica where there is one."""
    from artiway.health.checks import with_reader
    from artiway.health.service import HealthService

    return HealthService(with_reader(base.service_database(), base.reader_database(), base.redis()))


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
    from artiway.health.settings import (
        OUTBOX_S,
        QUEUE_AGE_S,
        REDIS_CONNECTIONS,
        REDIS_MEMORY_PERCENT,
        RUN_BACKLOG,
        RUN_FAILURES_PERCENT,
        TRIGGER_LAG_S,
        WAITING,
    )
    from artiway.jobs.repository import PostgresReadings
    from artiway.outbox.repository import PostgresStore

    values, redis = service_setting_values(), RedisMeters(base.redis())
    outbox_age_s = PostgresStore(base.service_database()).oldest_unsent_age_s
    breaker, runs = base.redis_breaker(), PostgresReadings(base.service_database())
    return Guard(
        _parts(),
        [
            Meter("outboxOldest", outbox_age_s, lambda: values.get(OUTBOX_S), "s"),
            Meter("nodesWaiting", waiting_nodes(operations().lanes), lambda: values.get(WAITING), "nodes"),
            Meter("redisMemory", redis.memory_percent, lambda: values.get(REDIS_MEMORY_PERCENT), "%"),
            Meter("redisConnections", redis.connections, lambda: values.get(REDIS_CONNECTIONS), "connections"),
            Meter("redisBreaker", lambda: float(breaker.is_resting()), lambda: 0, "open"),
            Meter("oldestWaiting", operations().oldest_waiting_s, lambda: values.get(QUEUE_AGE_S), "s"),
            Meter("poolsWithoutWorkers", operations().pools_without_workers, lambda: 0, "pools"),
            Meter("triggerLag", runs.lag_s, lambda: values.get(TRIGGER_LAG_S), "s"),
            Meter("runBacklog", runs.backlog, lambda: values.get(RUN_BACKLOG), "runs"),
            Meter("runFailures", runs.failed_percent, lambda: values.get(RUN_FAILURES_PERCENT), "%"),
        ],
        stopped=circuits().stopped,
        runs=run_guard().health,
    )
