"""The life of tasks and nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.audit import audit_trail
from artiway.bootstrap.circuits import circuit_rules, circuits
from artiway.bootstrap.delivery import listeners, task_feed, uploads, webhook_post, webhooks
from artiway.bootstrap.live_settings import setting_values
from artiway.bootstrap.once import once
from artiway.bootstrap.outbox import direct_push, outbox, service_outbox
from artiway.bootstrap.points import points

if TYPE_CHECKING:
    from artiway.delivery.feed.service import FeedService
    from artiway.tasks.catalogue import Catalogue
    from artiway.tasks.drafts import Drafts
    from artiway.tasks.durations import MeasuredDurations
    from artiway.tasks.lifecycle import NodeService
    from artiway.tasks.operations import TaskOperations
    from artiway.tasks.progress import Progress
    from artiway.tasks.repository import PostgresNodes, PostgresTasks
    from artiway.tasks.service import TaskService
    from artiway.tasks.why import WhyService


@once
def task_store() -> PostgresTasks:
    """Adds events to Redis and releases slots after each commit; the sweeps repeat what a crash prevented."""
    from artiway.bootstrap.scheduling import scheduler
    from artiway.delivery.feed.service import announce
    from artiway.tasks.repository import PostgresTasks

    return PostgresTasks(
        base.database(),
        outbox(),
        base.clock(),
        announce=announce(task_feed()),
        count=lambda attempts: circuits().record(attempts),
        schedule=lambda slots, ready: scheduler().release(slots, ready),
    )


@once
def node_store() -> PostgresNodes:
    from artiway.tasks.repository import PostgresNodes

    return PostgresNodes(base.service_database(), service_outbox())


@once
def jitter() -> Callable[[], float]:
    """Spreads the retries of nodes."""
    import random

    return random.random


@once
def nodes() -> NodeService:
    """The life of a node: claims, heartbeats, reports, tokens, ends."""
    from artiway.tasks.lifecycle import NodeService, Rules
    from artiway.workers.settings import terms

    rules = Rules(
        retries=base.settings().node_retries,
        backoff_s=base.settings().node_backoff_s,
        progress_interval_s=base.settings().progress_interval_s,
    )
    return NodeService(
        task_store(),
        node_store(),
        points(),
        webhooks(),
        rules,
        jitter=jitter(),
        circuit_rules=circuit_rules,
        terms=lambda: terms(setting_values()),
    )


@once
def durations() -> MeasuredDurations:
    from artiway.tasks.durations import MeasuredDurations, Windows

    windows = Windows(
        nodes=base.settings().duration_samples,
        nodes_s=base.settings().duration_window_s,
        tasks_s=base.settings().lateness_window_s,
    )
    return MeasuredDurations(node_store(), base.cache(), windows, for_s=base.settings().durations_s)


@once
def tasks() -> TaskService:
    from artiway.bootstrap.calls import call_check
    from artiway.bootstrap.scheduling import forecasts
    from artiway.delivery.feed.service import ProgressReader
    from artiway.tasks.estimates import Estimator
    from artiway.tasks.load import cached
    from artiway.tasks.service import TaskService

    return TaskService(
        task_store(),
        points(),
        uploads(),
        live_catalogue(),
        nodes(),
        base.clock(),
        load_of=cached(node_store().lane_load, base.clock(), for_s=base.settings().lane_load_s),
        timing_of=Estimator(forecasts().with_pending, durations().of).timing,
        hold_ttl_s=base.settings().hold_ttl_s,
        # Without a DNS lookup: a submission does not wait for a name server, and each delivery checks the addresses.
        refusal_of=lambda url: webhook_post().refusal(url, is_looked_up=False),
        live_progress=ProgressReader(task_feed()).read,
        circuit_rules=circuit_rules,
        drafts=drafts(),
        check_calls=lambda tenant_id, plan: call_check().check(tenant_id, plan),
    )


@once
def task_operations() -> TaskOperations:
    from artiway.tasks.operations import TaskOperations
    from artiway.tasks.repository import PostgresTaskSearch

    return TaskOperations(PostgresTaskSearch(base.service_database()), tasks(), audit_trail())


@once
def drafts() -> Drafts:
    from artiway.tasks.drafts import Drafts

    silence_s = base.settings().worker_silence_s
    return Drafts(
        catalogue(),
        lambda pool: node_store().neural_steps(pool, silence_s=silence_s),
        setting_values(),
        base.clock(),
        configured=base.settings().neural_steps.split(","),
        for_s=base.settings().lane_load_s,
    )


@once
def why() -> WhyService:
    from artiway.bootstrap.scheduling import fair_queues, forecasts
    from artiway.tasks.why import WhyService

    return WhyService(tasks(), fair_queues(), forecasts().of, base.clock())


def catalogue() -> Catalogue:
    """With its default prices and limits."""
    from artiway.tasks import catalogue

    return catalogue.load()


@once
def live_catalogue() -> Catalogue:
    """With the prices and limits that are in force."""
    return catalogue().with_values(setting_values())


@once
def progress() -> Progress:
    from artiway.tasks.progress import Progress, push_directly

    return Progress(task_store(), nodes(), task_feed(), base.clock(), push=push_directly(direct_push()))


@once
def task_events() -> FeedService:
    from artiway.delivery.feed.service import FeedService

    return FeedService(task_store(), task_feed(), listeners(), pause=base.pause())
