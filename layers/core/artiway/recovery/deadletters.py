"""Dead letters: look at them, send them back to where they failed, or throw them away with a reason. On record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from artiway.errors import NotFound, Refused
from artiway.recovery.model import DeadLetter

LOOK_LIMIT = 100


class NoSuchQueue(NotFound):
    code = "OPS_404_NO_QUEUE"

    def __init__(self) -> None:
        super().__init__("there is no such dead-letter queue")


@dataclass(frozen=True)
class Pair:
    """A dead-letter queue, and the queues whose letters it keeps."""

    name: str
    dead_url: str
    source_urls: tuple[str, ...]


class Queues(Protocol):
    def depth(self, url: str) -> int: ...

    def take(self, url: str, *, limit: int) -> Sequence[DeadLetter]:
        """Receive letters; they come back by themselves unless they are deleted."""

    def put_back(self, url: str, letters: Sequence[DeadLetter]) -> None: ...

    def send(self, url: str, letter: DeadLetter) -> None: ...

    def delete(self, url: str, letter: DeadLetter) -> None: ...


class Journal(Protocol):
    def acted(self, *, actor_id: UUID, action: str, target: str, details: Mapping[str, object]) -> None: ...


class DeadLetters:
    def __init__(
        self,
        pairs: Sequence[Pair],
        queues: Queues,
        journal: Journal,
        *,
        once: Callable[[str], AbstractContextManager[object]],
    ) -> None:
        """`once` keeps two operators from replaying the same queue at the same time."""
        self._pairs = {pair.name: pair for pair in pairs}
        self._queues, self._journal, self._once = queues, journal, once

    def depths(self) -> dict[str, int]:
        return {name: self._queues.depth(pair.dead_url) for name, pair in self._pairs.items()}

    def letters(self, name: str) -> Sequence[DeadLetter]:
        pair = self._pair(name)
        found = self._queues.take(pair.dead_url, limit=LOOK_LIMIT)
        self._queues.put_back(pair.dead_url, found)
        return found

    def replay(self, name: str, message_ids: Sequence[str] | None, *, actor_id: UUID) -> int:
        """Send, then delete: a crash in between sends twice, and every consumer bears that."""
        pair = self._pair(name)
        with self._once(f"dlq:{name}"):
            chosen = self._chosen(pair, message_ids)
            for letter in chosen:
                self._queues.send(source_of(pair, letter), letter)
                self._queues.delete(pair.dead_url, letter)
        self._record(actor_id, "dlq.replay", name, chosen, {})
        return len(chosen)

    def discard(self, name: str, message_ids: Sequence[str] | None, *, reason: str, actor_id: UUID) -> int:
        if not reason.strip():
            raise Refused("the request is not valid", fields=[{"field": "reason", "reason": "is needed"}])
        pair = self._pair(name)
        with self._once(f"dlq:{name}"):
            chosen = self._chosen(pair, message_ids)
            for letter in chosen:
                self._queues.delete(pair.dead_url, letter)
        self._record(actor_id, "dlq.discard", name, chosen, {"reason": reason})
        return len(chosen)

    def _chosen(self, pair: Pair, message_ids: Sequence[str] | None) -> list[DeadLetter]:
        found = self._queues.take(pair.dead_url, limit=LOOK_LIMIT)
        chosen = [letter for letter in found if message_ids is None or letter.message_id in message_ids]
        others = [letter for letter in found if letter not in chosen]
        self._queues.put_back(pair.dead_url, others)
        return chosen

    def _pair(self, name: str) -> Pair:
        if name not in self._pairs:
            raise NoSuchQueue
        return self._pairs[name]

    def _record(
        self, actor_id: UUID, action: str, name: str, letters: Sequence[DeadLetter], details: Mapping[str, object]
    ) -> None:
        message_ids = [letter.message_id for letter in letters]
        self._journal.acted(
            actor_id=actor_id, action=action, target=name, details={**details, "messageIds": message_ids}
        )


def source_of(pair: Pair, letter: DeadLetter) -> str:
    """Where a letter failed: SQS says so in the letter, where one dead-letter queue serves several."""
    if len(pair.source_urls) == 1:
        return pair.source_urls[0]
    name = letter.source_arn.rpartition(":")[2]
    for url in pair.source_urls:
        if url.rstrip("/").rpartition("/")[2] == name:
            return url
    raise Refused("this letter does not say where it came from", message_id=letter.message_id)
