"""The outbox table: written inside the caller's transaction, read under a lock per aggregate."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from artiway.outbox.model import Envelope, Message
from artiway.platform import sql, tracing
from artiway.platform.clock import Clock, SystemClock
from artiway.platform.database import Database, Transaction

SQL = sql.load("artiway.outbox")
DELIVER_LIMIT = 500
PUSH = "push"


class Outbox:
    """Stores messages in the transaction of the change that they announce, and sends them after its commit."""

    def __init__(self, deliver: Callable[[UUID | None, Sequence[str]], object], clock: Clock | None = None) -> None:
        self._deliver, self._clock = deliver, clock or SystemClock()

    def publish(self, tx: Transaction, messages: Sequence[Message]) -> None:
        if not messages:
            return
        if any(message.destination == PUSH for message in messages):
            tenants = {tx.tenant_id or message.tenant_id for message in messages if _is_event(message)}
            self.serialise(tx, sorted({message.aggregate for message in messages}), tenants=tenants - {None})
        trace_id, now = tracing.current(), self._clock.now()
        rows = json.dumps([_row(message, trace_id, now) for message in messages], ensure_ascii=False)
        due = [row["aggregate"] for row in tx.all(SQL["insert_messages"], {"messages": rows, "trace_id": trace_id})]
        if due:
            tx.after_commit(lambda: self._deliver(tx.tenant_id, due))

    def serialise(
        self, tx: Transaction, aggregates: Sequence[str], *, tenants: Iterable[UUID | str | None] = ()
    ) -> None:
        """Until the commit no other transaction writes messages of these aggregates. The same holds for a tenant in the
        list that has a tenant-wide socket open."""
        tx.run(SQL["serialise_writers"], {"aggregates": list(aggregates), "tenant_ids": [str(one) for one in tenants]})


def _is_event(message: Message) -> bool:
    """Whether sockets receive it. Other messages to push only start a delivery, and their order does not matter."""
    return message.destination == PUSH and message.aggregate.startswith("user:")


def _row(message: Message, trace_id: str, now: datetime) -> dict[str, Any]:
    return {
        "tenant_id": None if message.tenant_id is None else str(message.tenant_id),
        "aggregate": message.aggregate,
        "destination": message.destination,
        "body": message.body(trace_id=trace_id, at=now),
        "delay_s": message.delay_s,
    }


@dataclass
class _Claim:
    _tx: Transaction
    envelopes: list[Envelope]

    def mark_sent(self, outbox_ids: Sequence[int]) -> None:
        if outbox_ids:
            self._tx.run(SQL["mark_sent"], {"ids": list(outbox_ids)})


class PostgresStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    @contextlib.contextmanager
    def claim(self, tenant_id: UUID | None, aggregates: Sequence[str]) -> Iterator[_Claim]:
        # A message that was sent and not marked is sent again, so the commit need not wait for the disk.
        with self._database.async_commit_transaction(tenant_id) as tx:
            tx.run(SQL["lock_aggregates"], {"aggregates": list(aggregates)})
            yield _Claim(tx, self._unsent(tx, aggregates, DELIVER_LIMIT))

    @contextlib.contextmanager
    def claim_overdue(self, *, age_s: int, limit: int) -> Iterator[_Claim]:
        with self._database.async_commit_transaction(None) as tx:
            rows = tx.all(SQL["lock_overdue_aggregates"], {"age_s": age_s, "limit": limit})
            yield _Claim(tx, self._unsent(tx, [row["aggregate"] for row in rows], limit))

    def oldest_unsent_age_s(self) -> float:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["oldest_unsent_age_s"])
            assert row is not None
            return float(row["age_s"])

    def purge_sent(self, *, keep_hours: int, limit: int) -> int:
        with self._database.service_transaction() as tx:
            return tx.run(SQL["purge_sent"], {"keep_hours": keep_hours, "limit": limit})

    @staticmethod
    def _unsent(tx: Transaction, aggregates: Sequence[str], limit: int) -> list[Envelope]:
        if not aggregates:
            return []
        rows = tx.all(SQL["unsent_of_aggregates"], {"aggregates": list(aggregates), "limit": limit})
        return [Envelope(**row) for row in rows]
