"""An outbox whose messages stay, and a sender that writes to a Redis list, shared by any number of processes."""

from __future__ import annotations

import json
from collections.abc import Sequence

import redis

from artiway.outbox.model import Envelope
from artiway.outbox.repository import Outbox

KEY = "arrived"


def unsent_outbox() -> Outbox:
    """Stores messages, and leaves them to a sweep that does not run."""
    return Outbox(lambda _tenant_id, _envelopes: None)


class ListSender:
    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(url, decode_responses=True)

    def send(self, envelopes: Sequence[Envelope]) -> set[int]:
        self._redis.rpush(KEY, *(f"{envelope.outbox_id}|{envelope.body}" for envelope in envelopes))
        return {envelope.outbox_id for envelope in envelopes}

    def arrived(self) -> list[tuple[int, dict[str, object]]]:
        lines = (line.partition("|") for line in self._redis.lrange(KEY, 0, -1))
        return [(int(outbox_id), json.loads(body)) for outbox_id, _, body in lines]
