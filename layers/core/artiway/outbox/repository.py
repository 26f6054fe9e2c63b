"""The outbox table: written inside the caller's transaction, and swept for messages that were not sent after it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from artiway.outbox.model import Envelope, Message
from artiway.platform import sql, tracing
from artiway.platform.clock import Clock, SystemClock
from artiway.platform.database import Database, Row, Transaction
from artiway.platform.logs import Logger

logger = Logger("outbox")
SQL = sql.load("artiway.outbox")


@dataclass(frozen=True)
class Prepared:
    """Messages with their texts. The database takes those that it stores as one JSON document."""

    messages: Sequence[tuple[Message, str]]
    trace_id: str

    @property
    def stored(self) -> list[dict[str, Any]]:
        return [
            {
                "tenant_id": None if message.tenant_id is None else str(message.tenant_id),
                "aggregate": message.aggregate,
                "destination": message.destination,
                "delay_s": message.delay_s,
                "trace_id": message.trace_id or self.trace_id,
                **({"body": body} if message.event is None else _reference(*message.event)),
                **({} if message.due_at is None else {"due_at": message.due_at.isoformat()}),
            }
            for message, body in self.messages
            if message.is_stored
        ]

    @property
    def parameters(self) -> dict[str, str]:
        return {"messages": json.dumps(self.stored, ensure_ascii=False), "trace_id": self.trace_id}

    def envelopes(self, numbers: Sequence[Row], tenant_id: UUID | None) -> list[Envelope]:
        """The messages to send. `numbers` has a row for each stored message, in order."""
        of_stored = iter(numbers)
        numbered = [
            next(of_stored) if message.is_stored else {"outbox_id": -place, "is_due": True}
            for place, (message, _) in enumerate(self.messages, start=1)
        ]
        return [
            Envelope(
                outbox_id=number["outbox_id"],
                tenant_id=tenant_id or message.tenant_id,
                aggregate=message.aggregate,
                destination=message.destination,
                body=body,
                delay_s=message.delay_s,
                trace_id=message.trace_id or self.trace_id,
                token_id=message.token_id,
                due_at=message.due_at,
            )
            for number, (message, body) in zip(numbered, self.messages, strict=True)
            if number["is_due"]
        ]


class Outbox:
    """Stores messages in the transaction of the change that they announce, and sends them after its commit."""

    def __init__(
        self, deliver: Callable[[UUID | None, Sequence[Envelope]], object], clock: Clock | None = None
    ) -> None:
        self._deliver, self._clock = deliver, clock or SystemClock()
        self._batch: dict[UUID | None, list[Envelope]] | None = None

    def publish(self, tx: Transaction, messages: Sequence[Message]) -> None:
        if messages:
            prepared = self.prepare(messages)
            is_any_stored = any(message.is_stored for message in messages)
            self.deliver_after(tx, prepared, tx.all(SQL["publish"], prepared.parameters) if is_any_stored else [])

    def prepare(self, messages: Sequence[Message]) -> Prepared:
        trace_id, now = tracing.current(), self._clock.now()
        return Prepared(
            [(message, message.body(trace_id=message.trace_id or trace_id, at=now)) for message in messages], trace_id
        )

    def deliver_after(self, tx: Transaction, prepared: Prepared, stored: Sequence[Row]) -> None:
        """Send the messages after the commit. `stored` is the database's answer: a row for each stored message."""
        due = prepared.envelopes(stored, tx.tenant_id)
        if due:
            tx.after_commit(lambda: self._send(tx.tenant_id, due))

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Send the messages of all transactions inside together, at the end. A crash before it leaves them to the
        sweeps, as a crash between commit and send does."""
        batch = self._batch = {}
        try:
            yield
        finally:
            self._batch = None
        for tenant_id, envelopes in batch.items():
            try:
                self._deliver(tenant_id, _numbered(envelopes))
            except Exception:
                logger.exception("messages left to the sweep", messages=len(envelopes))

    def _send(self, tenant_id: UUID | None, due: list[Envelope]) -> None:
        if self._batch is None:
            self._deliver(tenant_id, due)
        else:
            self._batch.setdefault(tenant_id, []).extend(due)

    def serialise(self, tx: Transaction, aggregates: Sequence[str]) -> None:
        """Until the commit no other transaction writes events of these aggregates."""
        tx.run(SQL["serialise_writers"], {"aggregates": list(aggregates), "tenant_ids": []})


@dataclass
class _Claim:
    _tx: Transaction
    envelopes: list[Envelope]

    def mark_sent(self, outbox_ids: Sequence[int]) -> None:
        if outbox_ids:
            self._tx.run(SQL["mark_sent"], {"tenant_id": "", "ids": list(outbox_ids), "token_ids": []})


def _numbered(envelopes: Sequence[Envelope]) -> list[Envelope]:
    """Messages that are not stored have numbers of their transaction, which can be the same in another."""
    return [
        envelope if envelope.outbox_id > 0 else replace(envelope, outbox_id=-place)
        for place, envelope in enumerate(envelopes, start=1)
    ]


def _reference(task_id: UUID, sequence: int) -> dict[str, Any]:
    return {"body": "", "task_id": str(task_id), "sequence": sequence}


class PostgresStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def mark_sent(self, tenant_id: UUID | None, sent: Sequence[Envelope]) -> None:
        parameters = {
            "tenant_id": str(tenant_id or ""),
            "ids": [envelope.outbox_id for envelope in sent if envelope.outbox_id > 0],
            "token_ids": [envelope.token_id for envelope in sent if envelope.token_id],
        }
        if parameters["ids"] or parameters["token_ids"]:
            self._database.run_alone(SQL["mark_sent"], parameters)

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
