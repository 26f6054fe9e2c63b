"""Definitions of jobs, their runs for tenants and operators, their secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.audit import audit
from artiway.bootstrap.delivery import uploads, webhook_post
from artiway.bootstrap.jobs import fire_ahead, job_secret_cipher, run_control, tenant_runs
from artiway.bootstrap.live_settings import setting_values
from artiway.bootstrap.once import once
from artiway.bootstrap.tasks import live_catalogue

if TYPE_CHECKING:
    from artiway.jobs.archive.service import ColdReader
    from artiway.jobs.backfills.service import BackfillService
    from artiway.jobs.definitions.repository import PostgresDefinitions
    from artiway.jobs.definitions.runs import RunOperations, RunService
    from artiway.jobs.definitions.service import JobService
    from artiway.jobs.definitions.vault import SecretService
    from artiway.jobs.history.service import FireService


@once
def definitions() -> PostgresDefinitions:
    from artiway.jobs.definitions.repository import PostgresDefinitions

    return PostgresDefinitions(base.database(), audit(), setting_values())


@once
def jobs() -> JobService:
    from artiway.bootstrap.calls import call_check
    from artiway.jobs.chains.repository import PredecessorRows
    from artiway.jobs.definitions.service import JobService
    from artiway.jobs.definitions.submissions import SubmissionCheck

    check = SubmissionCheck(
        live_catalogue(),
        uploads(),
        refusal_of=lambda url: webhook_post().refusal(url, is_looked_up=False),
        check_calls=lambda tenant_id, plan: call_check().check(tenant_id, plan),
    )
    return JobService(
        definitions(),
        fire_ahead(),
        check,
        job_secret_cipher(),
        setting_values(),
        PredecessorRows(),
        refusal_of=lambda url: webhook_post().refusal(url, is_looked_up=True),
    )


@once
def cold_runs() -> ColdReader:
    """Archived runs and logs, for their tenants."""
    from artiway.jobs.archive.repository import PostgresParts, S3Archive
    from artiway.jobs.archive.service import ColdReader

    return ColdReader(PostgresParts(base.database()), S3Archive(base.settings().artefact_bucket))


@once
def runs() -> RunService:
    from artiway.jobs.definitions.runs import RunService

    return RunService(definitions(), run_control(), cold_runs())


@once
def run_operations() -> RunOperations:
    """Reads the runs of all tenants, and acts in the transaction of each run's tenant."""
    from artiway.jobs.definitions.repository import PostgresRunSearch
    from artiway.jobs.definitions.runs import RunOperations

    return RunOperations(PostgresRunSearch(base.service_database()), definitions(), run_control())


@once
def job_secrets() -> SecretService:
    from artiway.jobs.definitions.vault import SecretService

    return SecretService(definitions(), job_secret_cipher(), setting_values())


@once
def job_fires() -> FireService:
    from artiway.jobs.history.repository import PostgresHistory
    from artiway.jobs.history.service import FireService

    return FireService(definitions(), PostgresHistory(), cold_runs())


@once
def backfills() -> BackfillService:
    from artiway.jobs.backfills.repository import PostgresBackfills
    from artiway.jobs.backfills.service import BackfillService

    return BackfillService(
        PostgresBackfills(definitions(), tenant_runs()), run_control(), cold_runs(), setting_values()
    )
