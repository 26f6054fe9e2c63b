"""Sends stored messages: right after the commit, and by a sweep for those that were not sent then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol
from uuid import UUID

from artiway.outbox.model import Envelope, Sender, in_rounds


class Claim(Protocol):
    """Unsent messages that no other relay sends while the claim is open."""

    envelopes: list[Envelope]

    def mark_sent(self, outbox_ids: Sequence[int]) -> None: ...


class Store(Protocol):
    def claim(self, tenant_id: UUID | None, aggregates: Sequence[str]) -> AbstractContextManager[Claim]: ...

    def claim_overdue(self, *, age_s: int, limit: int) -> AbstractContextManager[Claim]: ...

    def oldest_unsent_age_s(self) -> float: ...

    def purge_sent(self, *, keep_hours: int, limit: int) -> int: ...


class Relay:
    """Sends each message at least once, in order per aggregate. A crash between sending and marking sends it again."""

    def __init__(self, store: Store, sender: Sender, *, crash_point: Callable[[str], None] = lambda _: None) -> None:
        self._store, self._sender, self._crash_point = store, sender, crash_point

    def deliver(self, tenant_id: UUID | None, aggregates: Sequence[str]) -> int:
        """Send the committed messages of these aggregates."""
        with self._store.claim(tenant_id, aggregates) as claim:
            return self._send(claim)

    def sweep(self, *, age_s: int, limit: int) -> int:
        """Send messages that have waited longer than `age_s`: their writer crashed between commit and send."""
        with self._store.claim_overdue(age_s=age_s, limit=limit) as claim:
            return self._send(claim)

    def oldest_unsent_age_s(self) -> float:
        return self._store.oldest_unsent_age_s()

    def purge_sent(self, *, keep_hours: int, limit: int) -> int:
        return self._store.purge_sent(keep_hours=keep_hours, limit=limit)

    def _send(self, claim: Claim) -> int:
        sent: set[int] = set()
        held_back: set[str] = set()
        for messages in in_rounds(claim.envelopes):
            due = [message for message in messages if message.aggregate not in held_back]
            if not due:
                break
            self._crash_point("before send")
            accepted = self._sender.send(due)
            self._crash_point("after send")
            sent |= accepted
            held_back |= {message.aggregate for message in due if message.outbox_id not in accepted}
        claim.mark_sent(sorted(sent))
        return len(sent)
