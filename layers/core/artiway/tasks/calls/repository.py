"""HTTP nodes of all tenants in PostgreSQL, and the keys of their calls, as `artiway_service`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from artiway.jobs.model import CallKeys
from artiway.jobs.repository import PostgresRuns
from artiway.outbox.repository import Outbox
from artiway.platform import sql
from artiway.platform.database import Database, Row, Transaction
from artiway.tasks.calls.model import Share
from artiway.tasks.repository import work_messages

SQL = sql.load("artiway.tasks.calls")


class PlacementRows:
    def __init__(self, tx: Transaction, outbox: Outbox) -> None:
        self._tx, self._outbox = tx, outbox

    def lock(self) -> int:
        self._tx.run(SQL["lock"])
        row = self._tx.one(SQL["count_running"])
        assert row is not None
        return int(row["running"])

    def waiting_tenants(self) -> list[Row]:
        return self._tx.all(SQL["waiting_tenants"])

    def dispatch(self, shares: Sequence[Share], *, limit: int) -> int:
        given: dict[str, Any] = {
            "tenant_ids": sql.array(one.tenant_id for one in shares),
            "running": [one.running for one in shares],
            "rooms": [one.room for one in shares],
            "weights": [one.weight for one in shares],
        }
        rows = self._tx.all(SQL["dispatch"], {**given, "limit": limit})
        self._outbox.publish(self._tx, work_messages(rows))
        return len(rows)


class PostgresPlacement:
    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database, self._outbox = database, outbox

    @contextlib.contextmanager
    def open(self) -> Iterator[PlacementRows]:
        with self._database.service_transaction() as tx:
            yield PlacementRows(tx, self._outbox)


class PostgresKeys:
    def __init__(self, runs: PostgresRuns) -> None:
        self._runs = runs

    def of(self, tenant_id: UUID, names: Iterable[str], now: datetime) -> CallKeys:
        with self._runs.open() as tx:
            return tx.keys_of([(tenant_id, name) for name in sorted(names)], [tenant_id], now)
