"""Sweepers, invariants, dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.audit import audit
from artiway.bootstrap.circuits import circuit_rules
from artiway.bootstrap.delivery import artefact_objects
from artiway.bootstrap.live_settings import service_setting_values
from artiway.bootstrap.once import once
from artiway.bootstrap.outbox import queue_urls, service_outbox, text_queue_urls
from artiway.bootstrap.points import points
from artiway.bootstrap.scheduling import fair_queues
from artiway.bootstrap.tasks import nodes, task_store

if TYPE_CHECKING:
    from artiway.platform.parameters import Parameter
    from artiway.recovery.deadletters import DeadLetters
    from artiway.recovery.invariants import Invariants
    from artiway.recovery.repository import AuditJournal
    from artiway.recovery.service import Sweeper


@once
def sweeper() -> Sweeper:
    from artiway.bootstrap.generations import text_sweeps
    from artiway.recovery.repository import PostgresOverdueQueries
    from artiway.recovery.service import Sweeper, SweepThresholds

    thresholds = SweepThresholds(
        batch=base.settings().watchdog_batch,
        unclaimed_s=base.settings().unclaimed_s,
        abandoned_s=base.settings().abandoned_s,
        execution_s=base.settings().execution_unheard_s,
        running_s=base.settings().running_limit_s,
        requeued_tools=base.settings().requeued_tools,
    )
    overdue = PostgresOverdueQueries(base.service_database(), service_outbox())
    return Sweeper(
        overdue,
        task_store(),
        nodes(),
        points(),
        artefact_objects(),
        thresholds,
        stopped_wait_s=lambda: circuit_rules().wait_s,
        texts=text_sweeps(),
    )


@once
def invariants() -> Invariants:
    from redis.exceptions import RedisError

    from artiway.recovery.invariants import Invariants
    from artiway.recovery.mirror import SlotMirror
    from artiway.recovery.repository import PostgresInvariantQueries, PostgresSlots
    from artiway.scheduling.operations import IMAGE_POOLS

    mirror = SlotMirror(PostgresSlots(base.service_database()), fair_queues(), IMAGE_POOLS, losses=(RedisError,))
    return Invariants(PostgresInvariantQueries(base.service_database()), mirror, service_setting_values())


@once
def audit_journal() -> AuditJournal:
    from artiway.recovery.repository import AuditJournal

    return AuditJournal(base.service_database(), audit())


@once
def dead_letter_parameter() -> Parameter:
    from artiway.platform.parameters import Parameter

    return Parameter(base.settings().dead_letters_parameter)


def dead_letter_names() -> Mapping[str, tuple[str, str]]:
    """The name of each dead-letter queue, and the destinations that it serves, separated by spaces: `work:gpu:*`."""
    from pydantic import TypeAdapter

    return TypeAdapter(dict[str, tuple[str, str]]).validate_json(dead_letter_parameter().text())


@once
def dead_letters() -> DeadLetters:
    from artiway.recovery.deadletters import DeadLetterQueue, DeadLetters
    from artiway.recovery.queue import SqsQueues

    address, urls = base.settings().queue_address, {**queue_urls(), **text_queue_urls()}
    queues = [
        DeadLetterQueue(
            name,
            f"{address}/{queue}",
            tuple(url for to, url in urls.items() if any(fnmatchcase(to, one) for one in served.split())),
        )
        for name, (queue, served) in dead_letter_names().items()
    ]
    return DeadLetters(
        queues,
        SqsQueues(),
        audit_journal(),
        lock=lambda name: base.locks().hold(name, ttl_s=base.settings().dead_letter_lock_s),
    )
