"""The services of definitions on a real database, with two tenants."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from artiway import ids
from artiway.audit.repository import AuditLog
from artiway.delivery.uploads.model import NoSuchInput
from artiway.jobs.archive.repository import PostgresParts
from artiway.jobs.archive.service import ColdReader
from artiway.jobs.chains.repository import PostgresChains, PredecessorRows
from artiway.jobs.chains.service import Chains
from artiway.jobs.control import RunControl
from artiway.jobs.definitions.model import Actor, JobView, shape_of
from artiway.jobs.definitions.repository import PostgresDefinitions, PostgresRunSearch
from artiway.jobs.definitions.runs import RunOperations, RunService
from artiway.jobs.definitions.service import JobService
from artiway.jobs.definitions.submissions import SubmissionCheck
from artiway.jobs.definitions.vault import SecretService
from artiway.jobs.repository import PostgresRuns
from artiway.jobs.trigger import FireAhead
from artiway.outbox.repository import Outbox
from artiway.platform.database import Database
from artiway.platform.outbound import Client, TargetRefused
from artiway.settings.model import Fixed, Setting
from artiway.tasks import catalogue
from artiway.tasks.service import Picture
from tests.conftest import Addresses
from tests.fakes.objects import StoredObjects

HTTP = {"type": "HTTP", "url": "https://example.com/hook"}
EVERY_5_MINUTES = {"type": "CRON", "expr": "0 */5 * * * ?"}
JOB = {"name": "a job", "schedule": EVERY_5_MINUTES, "task": HTTP}


class ReversedBox:
    """Stands for KMS: shows that a ciphertext is bound to its tenant and name."""

    def encrypt(self, *, tenant_id: UUID, name: str, value: str) -> bytes:
        return f"{tenant_id}|{name}|{value[::-1]}".encode()


class Uploads:
    """Uploads by tenant, as the tests add them."""

    def __init__(self) -> None:
        self.known: set[tuple[UUID, UUID]] = set()

    def inspect(self, tenant_id: UUID, input_ids: Sequence[UUID]) -> Mapping[UUID, Picture]:
        if any((tenant_id, input_id) not in self.known for input_id in input_ids):
            raise NoSuchInput
        return {input_id: Picture("key", "image/png") for input_id in input_ids}


class Desk:
    def __init__(self, addresses: Addresses, values: Mapping[Setting[Any], Any] | None = None) -> None:
        self._addresses = addresses
        self.database, service = Database(addresses.app), Database(addresses.service)
        self._databases = [self.database, service]
        self.sent: list[Any] = []
        outbox = Outbox(lambda _, envelopes: self.sent.extend(envelopes))
        settings = self.settings = Fixed(values or {})
        self.store = PostgresDefinitions(self.database, AuditLog(), settings)
        runs = self.run_store = PostgresRuns(self.database, outbox)
        self.uploads, self.control = Uploads(), RunControl(runs, Chains(PostgresChains(), settings))
        check = SubmissionCheck(catalogue.load(), self.uploads, refusal_of=_refusal, check_calls=lambda *_: None)
        self.jobs = JobService(
            self.store,
            FireAhead(runs, settings),
            check,
            ReversedBox(),
            settings,
            PredecessorRows(),
            refusal_of=_refusal,
        )
        self.cold = ColdReader(PostgresParts(self.database), StoredObjects())
        self.runs = RunService(self.store, self.control, self.cold)
        self.secrets = SecretService(self.store, ReversedBox(), settings)
        self.operations = RunOperations(PostgresRunSearch(service), self.store, self.control)

    def close(self) -> None:
        for database in self._databases:
            database.close()

    def tenant(self, tier: str = "enterprise", **columns: int) -> Actor:
        actor = Actor(ids.new_id(), ids.new_id(), may_submit=True)
        self.sql("INSERT INTO tenant (tenant_id, name, tier) VALUES (%s, 'a tenant', %s)", actor.tenant_id, tier)
        for name, value in columns.items():
            self.sql(f"UPDATE tenant SET {name} = %s WHERE tenant_id = %s", value, actor.tenant_id)
        self.sql(
            "INSERT INTO app_user (tenant_id, user_id, email) VALUES (%s, %s, %s)",
            actor.tenant_id,
            actor.user_id,
            f"{actor.user_id}@example.com",
        )
        return actor

    def create(self, actor: Actor, **fields: Any) -> JobView:
        return self.jobs.create(actor, shape_of({**JOB, **fields}))

    def runs_of(self, view: JobView) -> list[dict[str, Any]]:
        return self.sql("SELECT * FROM job_run WHERE job_id = %s ORDER BY scheduled_at", view.job.job_id)

    def actions(self, actor: Actor) -> list[str]:
        rows = self.sql("SELECT action FROM audit_log WHERE tenant_id = %s ORDER BY audit_id", actor.tenant_id)
        return [row["action"] for row in rows]

    def count(self, table: str) -> int:
        return int(self.sql(f"SELECT count(*) AS number FROM {table}")[0]["number"])

    def now(self) -> datetime:
        return self.sql("SELECT clock_timestamp() AS now")[0]["now"]  # type: ignore[no-any-return]

    def sql(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self._addresses.superuser, row_factory=dict_row) as connection:
            found = connection.execute(query.encode(), values)
            return found.fetchall() if found.description else []


@contextlib.contextmanager
def opened(addresses: Addresses, values: Mapping[Setting[Any], Any] | None = None) -> Iterator[Desk]:
    with contextlib.closing(Desk(addresses, values)) as desk:
        yield desk


def _refusal(url: str) -> str | None:
    """The platform's own check, without a name server."""
    try:
        Client().check(url)
    except TargetRefused as error:
        return error.reason
    return None
