"""Texts: submissions, the worker, the sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.live_settings import setting_values
from artiway.bootstrap.once import once
from artiway.bootstrap.outbox import text_outbox
from artiway.bootstrap.points import points
from artiway.bootstrap.providers import text_router

if TYPE_CHECKING:
    from artiway.generations.feed.queue import RedisFeed
    from artiway.generations.lifecycle import Lifecycle
    from artiway.generations.margins.repository import PostgresMargins
    from artiway.generations.operations import GenerationOperations, TextModels
    from artiway.generations.pictures import StoredPictures
    from artiway.generations.queue import TextConsumer
    from artiway.generations.repository import PostgresGenerations, PostgresWorkerStore
    from artiway.generations.service import GenerationService
    from artiway.generations.services import Services
    from artiway.generations.sweeps import GenerationSweeps
    from artiway.generations.worker import TextWorker


@once
def generation_feed() -> RedisFeed:
    from artiway.generations.feed.queue import RedisFeed

    return RedisFeed(base.redis())


@once
def text_services() -> Services:
    """With the prices and limits that are in force."""
    from artiway.generations import services

    return services.Services(services.load(), setting_values())


@once
def generation_store() -> PostgresGenerations:
    from artiway.generations.repository import PostgresGenerations

    return PostgresGenerations(base.database(), text_outbox(base.database()))


@once
def text_claims() -> PostgresWorkerStore:
    from artiway.generations.repository import PostgresWorkerStore

    return PostgresWorkerStore(base.service_database(), text_outbox(base.service_database()))


@once
def text_lifecycle() -> Lifecycle:
    from artiway.generations import settings
    from artiway.generations.lifecycle import Lifecycle

    return Lifecycle(generation_store(), points(), generation_feed(), rules=lambda: settings.rules(setting_values()))


@once
def text_pictures() -> StoredPictures:
    from artiway.bootstrap.delivery import artefact_objects, uploads
    from artiway.generations.pictures import StoredPictures
    from artiway.platform.small_pictures import small_jpeg

    return StoredPictures(uploads(), artefact_objects(), small=small_jpeg)


@once
def generations() -> GenerationService:
    from artiway.generations import settings
    from artiway.generations.service import GenerationService

    return GenerationService(
        generation_store(),
        points(),
        text_services(),
        text_lifecycle(),
        base.clock(),
        workers=text_claims(),
        pictures=text_pictures(),
        free_tokens=lambda: settings.free_tokens(setting_values()),
        hold_ttl_s=base.settings().hold_ttl_s,
    )


@once
def text_worker() -> TextWorker:
    import os
    import socket

    from artiway.generations import settings
    from artiway.generations.providers.model import Limits
    from artiway.generations.worker import TextWorker

    return TextWorker(
        text_claims(),
        text_lifecycle(),
        text_services(),
        text_router(),
        generation_feed(),
        base.clock(),
        pictures=text_pictures(),
        rules=lambda: settings.rules(setting_values()),
        limits=lambda: settings.guard_limits(setting_values()),
        phases=Limits(total_s=base.settings().text_limit_s),
        worker_id=os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", f"{socket.gethostname()}:{os.getpid()}")[:200],
    )


@once
def text_sweeps() -> GenerationSweeps:
    from artiway.generations import settings
    from artiway.generations.sweeps import GenerationSweeps

    return GenerationSweeps(
        text_claims(),
        generation_store(),
        text_lifecycle(),
        points(),
        limits=lambda: settings.guard_limits(setting_values()),
        batch=base.settings().watchdog_batch,
    )


def wake_lane(lane: str | None = None) -> int:
    """Messages for the free slots of a lane that an operator has changed, or of all lanes."""
    from artiway.generations import settings

    parallelism = settings.guard_limits(setting_values()).parallelism
    return text_claims().wake(lane=lane, age_s=0, parallelism=parallelism, limit=base.settings().watchdog_batch)


@once
def generation_operations() -> GenerationOperations:
    from artiway.bootstrap.recovery import audit_journal
    from artiway.generations.operations import GenerationOperations

    return GenerationOperations(generations(), text_claims(), audit_journal())


@once
def margins() -> PostgresMargins:
    from artiway.generations.margins.repository import PostgresMargins

    return PostgresMargins(base.service_database())


@once
def text_models() -> TextModels:
    from artiway.bootstrap.scheduling import scheduling_store
    from artiway.generations.operations import TextModels

    return TextModels(text_claims(), scheduling_store(), wake=wake_lane)


@once
def text_consumer() -> TextConsumer:
    from artiway.generations.queue import TextConsumer

    return TextConsumer(text_worker())
