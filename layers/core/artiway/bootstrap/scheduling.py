"""The fair queue and its operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.audit import audit
from artiway.bootstrap.once import once
from artiway.bootstrap.tasks import catalogue, node_store

if TYPE_CHECKING:
    from artiway.platform.database import Database
    from artiway.scheduling.dispatcher import Dispatcher
    from artiway.scheduling.forecasts import PoolForecasts
    from artiway.scheduling.operations import OperationsService
    from artiway.scheduling.queue import FairQueue
    from artiway.scheduling.repository import PostgresSchedulingStore


@once
def fair_queues() -> Callable[[str], FairQueue]:
    """The fair queue of each pool, over one connection."""
    from artiway.scheduling.queue import FairQueue

    made: dict[str, FairQueue] = {}
    return lambda pool: made.setdefault(pool, FairQueue(base.redis(), pool))


@once
def scheduling_store() -> PostgresSchedulingStore:
    return _scheduling_store(base.service_database())


def _scheduling_store(database: Database) -> PostgresSchedulingStore:
    from artiway.scheduling.repository import PostgresSchedulingStore

    return PostgresSchedulingStore(
        database,
        audit(),
        silence_s=base.settings().worker_silence_s,
        window_s=base.settings().scheduler_window_s,
        samples=base.settings().scheduler_cost_samples,
        prefetch=base.settings().scheduler_prefetch,
    )


@once
def forecasts() -> PoolForecasts:
    from artiway.bootstrap.tasks import catalogue, durations
    from artiway.scheduling.forecast_store import RedisForecasts
    from artiway.scheduling.forecasts import PoolForecasts

    costs = {kind.name: kind.cost_us for kind in catalogue().types.values()}
    return PoolForecasts(
        fair_queues(),
        scheduling_store(),
        lambda pool: durations().of(pool).speed(costs, prefetch=base.settings().scheduler_prefetch),
        RedisForecasts(base.redis()),
        base.clock(),
        for_s=base.settings().forecast_s,
        pause=base.pause(),
    )


@once
def scheduler() -> Dispatcher:
    from artiway.bootstrap.calls import call_placement
    from artiway.scheduling.dispatcher import Dispatcher
    from artiway.tasks.model import HTTP

    unqueued = {HTTP: lambda: call_placement().place()}
    return Dispatcher(node_store(), scheduling_store(), fair_queues(), base.clock(), unqueued=unqueued)


@once
def operations() -> OperationsService:
    from artiway.bootstrap.generations import wake_lane
    from artiway.scheduling.operations import OperationsService

    return OperationsService(
        scheduling_store(),
        fair_queues(),
        scheduler(),
        base.clock(),
        catalogue().models,
        records=_scheduling_store(base.reader_database()),
        wake_lane=wake_lane,
    )
