"""The outbox table: written inside the caller's transaction, and swept for messages that were not sent after it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from artiway.outbox.model import Envelope, Message
from artiway.platform import sql, tracing
from artiway.platform.clock import Clock, SystemClock
from artiway.platform.database import Database, Row, Transaction

SQL = sql.load("artiway.outbox")


@dataclass(frozen=True)
class Prepared:
    """Messages as the database takes them: one JSON document."""

    rows: list[dict[str, Any]]
    trace_id: str

    @property
    def parameters(self) -> dict[str, str]:
        return {"messages": json.dumps(self.rows, ensure_ascii=False), "trace_id": self.trace_id}


class Outbox:
    """Stores messages in the transaction of the change that they announce, and sends them after its commit."""

    def __init__(
        self, deliver: Callable[[UUID | None, Sequence[Envelope]], object], clock: Clock | None = None
    ) -> None:
        self._deliver, self._clock = deliver, clock or SystemClock()

    def publish(self, tx: Transaction, messages: Sequence[Message]) -> None:
        if messages:
            prepared = self.prepare(messages)
            self.deliver_after(tx, prepared, tx.all(SQL["publish"], prepared.parameters))

    def prepare(self, messages: Sequence[Message]) -> Prepared:
        trace_id, now = tracing.current(), self._clock.now()
        rows = [
            {
                "tenant_id": None if message.tenant_id is None else str(message.tenant_id),
                "aggregate": message.aggregate,
                "destination": message.destination,
                "body": message.body(trace_id=message.trace_id or trace_id, at=now),
                "delay_s": message.delay_s,
                "trace_id": message.trace_id or trace_id,
            }
            for message in messages
        ]
        return Prepared(rows, trace_id)

    def deliver_after(self, tx: Transaction, prepared: Prepared, stored: Sequence[Row]) -> None:
        """Send the messages after the commit. `stored` is the answer of the database: one row for each, in order."""
        due = [
            Envelope(
                outbox_id=number["outbox_id"],
                tenant_id=tx.tenant_id or row["tenant_id"],
                aggregate=row["aggregate"],
                destination=row["destination"],
                body=row["body"],
                delay_s=row["delay_s"],
                trace_id=row["trace_id"],
            )
            for row, number in zip(prepared.rows, stored, strict=True)
            if number["is_due"]
        ]
        if due:
            tx.after_commit(lambda: self._deliver(tx.tenant_id, due))

    def serialise(self, tx: Transaction, aggregates: Sequence[str]) -> None:
        """Until the commit no other transaction writes events of these aggregates."""
        tx.run(SQL["serialise_writers"], {"aggregates": list(aggregates), "tenant_ids": []})


@dataclass
class _Claim:
    _tx: Transaction
    envelopes: list[Envelope]

    def mark_sent(self, outbox_ids: Sequence[int]) -> None:
        if outbox_ids:
            self._tx.run(SQL["mark_sent"], {"tenant_id": "", "ids": list(outbox_ids)})


class PostgresStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def mark_sent(self, tenant_id: UUID | None, outbox_ids: Sequence[int]) -> None:
        self._database.run_alone(SQL["mark_sent"], {"tenant_id": str(tenant_id or ""), "ids": list(outbox_ids)})

    @contextlib.contextmanager
    def claim_overdue(self, *, age_s: int, limit: int) -> Iterator[_Claim]:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["lock_overdue"], {"age_s": age_s, "limit": limit})
            yield _Claim(tx, [Envelope(**row) for row in rows])

    def oldest_unsent_age_s(self) -> float:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["oldest_unsent_age_s"])
            assert row is not None
            return float(row["age_s"])

    def purge_sent(self, *, keep_hours: int, limit: int) -> int:
        with self._database.service_transaction() as tx:
            return tx.run(SQL["purge_sent"], {"keep_hours": keep_hours, "limit": limit})
