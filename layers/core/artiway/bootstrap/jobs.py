"""Scheduled jobs: definitions, runs, the caller of HTTP targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.audit import audit
from artiway.bootstrap.delivery import outbound
from artiway.bootstrap.live_settings import service_setting_values, setting_values
from artiway.bootstrap.once import once
from artiway.bootstrap.outbox import outbox, queue_urls, service_outbox
from artiway.bootstrap.tasks import jitter, tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from artiway.jobs.archive.service import ArchiveService
    from artiway.jobs.backfills.service import BackfillRelease
    from artiway.jobs.caller import Caller
    from artiway.jobs.chains.service import Chains
    from artiway.jobs.control import RunControl
    from artiway.jobs.dispatch import DispatchService
    from artiway.jobs.guard.service import RunGuard
    from artiway.jobs.model import JobLimits
    from artiway.jobs.repository import PostgresRuns
    from artiway.jobs.results import ResultService
    from artiway.jobs.secrets import SecretCipher
    from artiway.jobs.submissions import SubmissionService
    from artiway.jobs.sweeps import RunSweeper
    from artiway.jobs.trigger import FireAhead, TriggerService
    from artiway.settings.model import SettingValues


@once
def job_limits() -> Callable[[Mapping[str, Any]], JobLimits]:
    """The limits of a tenant's jobs now, from its policy and its overrides."""
    from artiway.jobs.limits import limits_of

    return lambda policy: limits_of(policy, service_setting_values())


@once
def job_secret_cipher() -> SecretCipher:
    """Encrypts secrets and signing keys of jobs. Only the caller decrypts."""
    from artiway.jobs.secrets import SecretCipher
    from artiway.platform.kms import KmsCipher

    return SecretCipher(KmsCipher(base.settings().jobs_key_id))


def make_ready(*services: str) -> None:
    """Make the clients of AWS that the next message needs: the first one takes a second of CPU."""
    from artiway.platform import aws

    aws.make_clients(*services)


@once
def caller() -> Caller:
    """Without a database and without Redis."""
    from artiway.jobs.caller import Caller
    from artiway.jobs.messages import RESULTS
    from artiway.jobs.outbound import HttpTarget
    from artiway.jobs.queue import ResultsQueue
    from artiway.jobs.secrets import SecretReader
    from artiway.platform.kms import KmsCipher
    from artiway.tasks.calls.nodes import report_of
    from artiway.tasks.messages import PROGRESS

    return Caller(
        HttpTarget(outbound()),
        SecretReader(KmsCipher(base.settings().jobs_key_id)),
        ResultsQueue(queue_urls()[RESULTS], base.clock(), reports_url=queue_urls()[PROGRESS], report_of=report_of),
        base.clock(),
    )


@once
def run_store() -> PostgresRuns:
    """Runs of all tenants."""
    from artiway.jobs.repository import PostgresRuns

    return PostgresRuns(base.service_database(), service_outbox())


@once
def tenant_runs() -> PostgresRuns:
    """Runs of one tenant, inside its transaction."""
    from artiway.jobs.repository import PostgresRuns

    return PostgresRuns(base.database(), outbox())


@once
def dispatch() -> DispatchService:
    from artiway.jobs.dispatch import DispatchService
    from artiway.jobs.guard.repository import PostgresHolds
    from artiway.jobs.guard.service import HeldTargets

    return DispatchService(
        run_store(),
        service_setting_values(),
        pause=base.pause(),
        clock=base.clock(),
        targets=HeldTargets(PostgresHolds()),
        chains=chains(service_setting_values()),
    )


@once
def backfill_release() -> BackfillRelease:
    """Makes the runs of backfills due, of all tenants."""
    from artiway.jobs.backfills.repository import PostgresRelease
    from artiway.jobs.backfills.service import BackfillRelease

    return BackfillRelease(PostgresRelease(run_store()), service_setting_values(), wake=dispatch().wake)


@once
def trigger() -> TriggerService:
    from artiway.jobs.trigger import TriggerService

    return TriggerService(run_store(), service_setting_values(), wake=backfill_release().release_and_wake)


def chains(values: SettingValues) -> Chains:
    """Jobs that run after others, in the transaction that ends a run: of the service or of a tenant."""
    from artiway.jobs.chains.repository import PostgresChains
    from artiway.jobs.chains.service import Chains

    return Chains(PostgresChains(), values)


@once
def results() -> ResultService:
    from artiway.jobs.results import ResultService

    return ResultService(run_store(), dispatch(), jitter=jitter(), chains=chains(service_setting_values()))


@once
def run_guard() -> RunGuard:
    """Pauses lanes of runs under overload, and stops calls to targets that fail."""
    from artiway.jobs.guard.repository import PostgresGuard
    from artiway.jobs.guard.service import RunGuard

    return RunGuard(PostgresGuard(base.service_database(), audit()), service_setting_values())


@once
def run_archive() -> ArchiveService:
    """Moves old days of runs and logs to objects."""
    import time

    from artiway.jobs.archive.repository import PostgresArchive, S3Archive
    from artiway.jobs.archive.service import ArchiveService

    objects = S3Archive(base.settings().artefact_bucket)
    return ArchiveService(
        PostgresArchive(base.service_database()), objects, service_setting_values(), monotonic=time.monotonic
    )


@once
def run_sweeper() -> RunSweeper:
    from artiway.jobs.sweeps import RunSweeper

    return RunSweeper(results(), dispatch())


@once
def fire_ahead() -> FireAhead:
    """For the service of definitions: runs that are created with a change."""
    from artiway.jobs.trigger import FireAhead

    return FireAhead(tenant_runs(), setting_values())


@once
def run_control() -> RunControl:
    """Terminates and replays runs inside a tenant's transaction."""
    from artiway.jobs.control import RunControl

    return RunControl(tenant_runs(), chains(setting_values()))


@once
def submissions() -> SubmissionService:
    """Tasks of runs. Uses the tenants' database for both."""
    from artiway.jobs.submissions import SubmissionService

    return SubmissionService(tenant_runs(), tasks(), base.clock())
