"""Sends stored messages: right after the commit, and by a sweep for those that were not sent then."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol
from uuid import UUID

from artiway.outbox.model import Envelope, Sender

# Messages that are sent and marked together, and how long after the commit a writer begins to send more. The sweep
# takes messages of ten seconds and more: a slow writer leaves the rest to it, so that both do not send the same ones.
DELIVER_MESSAGES = 100
DELIVER_S = 6


class Claim(Protocol):
    """Unsent messages that no other sweep sends while the claim is open."""

    envelopes: list[Envelope]

    def mark_sent(self, outbox_ids: Sequence[int]) -> None: ...


class Store(Protocol):
    def mark_sent(self, tenant_id: UUID | None, sent: Sequence[Envelope]) -> None: ...

    def claim_overdue(self, *, age_s: int, limit: int) -> AbstractContextManager[Claim]: ...

    def oldest_unsent_age_s(self) -> float: ...


class Relay:
    """Sends each message at least once, in any order. A crash between sending and marking sends it again."""

    def __init__(
        self,
        store: Store,
        sender: Sender,
        *,
        crash_point: Callable[[str], None] = lambda _: None,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """`elapsed` counts seconds."""
        self._store, self._sender, self._crash_point, self._elapsed = store, sender, crash_point, elapsed

    def deliver(self, tenant_id: UUID | None, envelopes: Sequence[Envelope]) -> int:
        """Send the messages of a transaction that has committed. The sweep sends those that SQS refuses, and those for
        which no time is left."""
        until, count = self._elapsed() + DELIVER_S, 0
        for first in range(0, len(envelopes), DELIVER_MESSAGES):
            if self._elapsed() > until:
                break
            batch = envelopes[first : first + DELIVER_MESSAGES]
            sent = set(self._send(batch))
            if sent:
                self._store.mark_sent(tenant_id, [envelope for envelope in batch if envelope.outbox_id in sent])
            count += len(sent)
        return count

    def sweep(self, *, age_s: int, limit: int) -> int:
        """Send messages that have waited longer than `age_s`: their writer crashed between commit and send."""
        with self._store.claim_overdue(age_s=age_s, limit=limit) as claim:
            sent = self._send(claim.envelopes)
            claim.mark_sent(sent)
            return len(sent)

    def oldest_unsent_age_s(self) -> float:
        return self._store.oldest_unsent_age_s()

    def _send(self, envelopes: Sequence[Envelope]) -> list[int]:
        if not envelopes:
            return []
        self._crash_point("before send")
        accepted = self._sender.send(envelopes)
        self._crash_point("after send")
        return sorted(accepted)
