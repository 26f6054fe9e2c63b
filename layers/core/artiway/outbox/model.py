"""Messages that a transaction stores with its change, and that are sent once it has committed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True)
class Message:
    """`destination` names the queue, `aggregate` the changed thing. A consumer must expect messages in any order."""

    destination: str
    aggregate: str
    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    delay_s: int = 0
    tenant_id: UUID | str | None = None  # for a transaction without a tenant whose message concerns one
    trace_id: str = ""  # of the task that the message is about; else that of the caller
    event: tuple[UUID, int] | None = None  # task and number of a stored event, which is then not stored again
    is_stored: bool = True  # False: another row of the transaction stands for it, and a sweep sends it again
    token_id: UUID | str | None = None  # of the task token that it answers, which goes when the answer was sent
    due_at: datetime | None = None  # the time at which it should arrive, instead of a delay after it was sent

    def body(self, *, trace_id: str, at: datetime) -> str:
        """The JSON text that consumers receive, whichever way the message is sent."""
        return _encode(
            {
                "type": self.type,
                "aggregate": self.aggregate,
                "traceId": trace_id,
                "at": at.isoformat(timespec="milliseconds"),
                "data": dict(self.data),
            }
        )


@dataclass(frozen=True)
class Envelope:
    """A message with its number in the outbox, ready to be sent unchanged. Below zero: it is not stored there."""

    outbox_id: int
    tenant_id: UUID | str | None
    aggregate: str
    destination: str
    body: str
    delay_s: int
    trace_id: str
    token_id: UUID | str | None = None
    due_at: datetime | None = None


class Sender(Protocol):
    def send(self, envelopes: Sequence[Envelope]) -> set[int]:
        """Send them in any order; return the ids that were accepted."""
