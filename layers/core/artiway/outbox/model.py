"""A message that leaves with the transaction which it announces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID


@dataclass(frozen=True)
class Message:
    """What to say, to which queue, about which aggregate. Messages of one aggregate are sent in order."""

    destination: str
    aggregate: str
    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    delay_s: int = 0
    tenant_id: UUID | str | None = None  # for a transaction without a tenant that speaks of one


@dataclass(frozen=True)
class Envelope:
    """A message as it lies in the outbox, ready to be sent as it is."""

    outbox_id: int
    tenant_id: UUID | None
    aggregate: str
    destination: str
    body: str
    delay_s: int
    trace_id: str


def in_rounds(envelopes: list[Envelope]) -> list[list[Envelope]]:
    """Rounds with at most one message of an aggregate each, so that one that fails holds back its successors."""
    rounds: list[list[Envelope]] = []
    position: dict[str, int] = {}
    for envelope in sorted(envelopes, key=lambda envelope: envelope.outbox_id):
        place = position.get(envelope.aggregate, 0)
        position[envelope.aggregate] = place + 1
        if place == len(rounds):
            rounds.append([])
        rounds[place].append(envelope)
    return rounds
