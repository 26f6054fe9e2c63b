"""Idempotency keys and the stored answers of their requests."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from artiway.errors import Conflict, Refused

KEEP_HOURS = 24
LONGEST_KEY = 200


class InProgress(Conflict):
    """The first request with this key is still running."""

    code = "IDEM_409_IN_PROGRESS"

    def __init__(self) -> None:
        super().__init__("a request with this Idempotency-Key is still running")


class KeyReused(Refused):
    code = "IDEM_422_KEY_REUSED"

    def __init__(self) -> None:
        super().__init__("this Idempotency-Key was used for another request")


class KeyInvalid(Refused):
    def __init__(self) -> None:
        super().__init__(
            f"an Idempotency-Key is 1 to {LONGEST_KEY} printable ASCII characters", field="Idempotency-Key"
        )


@dataclass(frozen=True)
class Answer:
    """A stored answer and the hash of its request."""

    request_hash: str
    status: int
    body: str


def key_of_user(user_id: UUID, key: str) -> str:
    """A key belongs to the user who sent it: the same text of another user is another key."""
    return f"{user_id.hex}:{key}"


def check_key(key: str) -> None:
    if not (1 <= len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise KeyInvalid
