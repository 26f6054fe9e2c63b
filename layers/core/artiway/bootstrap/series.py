"""Minute aggregates and service levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.live_settings import service_setting_values
from artiway.bootstrap.once import once
from artiway.bootstrap.recovery import dead_letter_names

if TYPE_CHECKING:
    from artiway.series.service import SeriesService


def dead_letter_depths() -> Mapping[str, int]:
    from artiway.recovery.queue import SqsQueues

    queues, address = SqsQueues(), base.settings().queue_address
    return {name: queues.depth(f"{address}/{queue}") for name, (queue, _) in dead_letter_names().items()}


@once
def series() -> SeriesService:
    from artiway.platform.request_counts import RequestCounts
    from artiway.scheduling.operations import IMAGE_POOLS
    from artiway.series.repository import PostgresSeries
    from artiway.series.service import SeriesService
    from artiway.workers.settings import terms

    values = service_setting_values()
    store = PostgresSeries(
        base.service_database(), base.reader_database(), pools=IMAGE_POOLS, beat_s=lambda: terms(values).beat_s
    )
    counts = RequestCounts(base.redis())
    return SeriesService(store, counts, dead_letter_depths, values, base.clock())
