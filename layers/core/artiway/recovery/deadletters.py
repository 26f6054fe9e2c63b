"""Dead letters: list them, send them back to their source queue, or discard them with a reason. Actions are audited."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from artiway.errors import NotFound, Refused
from artiway.recovery.model import DeadLetter

READ_LIMIT = 100


class NoSuchQueue(NotFound):
    code = "OPS_404_NO_QUEUE"

    def __init__(self) -> None:
        super().__init__("there is no such dead-letter queue")


@dataclass(frozen=True)
class DeadLetterQueue:
    """A dead-letter queue, and the source queues that it serves."""

    name: str
    url: str
    source_urls: tuple[str, ...]


class Queues(Protocol):
    def depth(self, url: str) -> int: ...

    def take(self, url: str, *, limit: int) -> Sequence[DeadLetter]:
        """Receive messages. They are visible again after the visibility timeout, unless they are deleted."""

    def put_back(self, url: str, messages: Sequence[DeadLetter]) -> None: ...

    def send(self, url: str, message: DeadLetter) -> None: ...

    def delete(self, url: str, message: DeadLetter) -> None: ...


class Journal(Protocol):
    def record(self, *, actor_id: UUID, action: str, target: str, details: Mapping[str, object]) -> None: ...


class DeadLetters:
    def __init__(
        self,
        dead_letter_queues: Sequence[DeadLetterQueue],
        queues: Queues,
        journal: Journal,
        *,
        lock: Callable[[str], AbstractContextManager[object]],
    ) -> None:
        """`lock` prevents two operators from replaying the same queue at the same time."""
        self._dead_letter_queues = {queue.name: queue for queue in dead_letter_queues}
        self._queues, self._journal, self._lock = queues, journal, lock

    def depths(self) -> dict[str, int]:
        return {name: self._queues.depth(queue.url) for name, queue in self._dead_letter_queues.items()}

    def messages(self, name: str) -> Sequence[DeadLetter]:
        queue = self._queue(name)
        found = self._queues.take(queue.url, limit=READ_LIMIT)
        self._queues.put_back(queue.url, found)
        return found

    def replay(self, name: str, message_ids: Sequence[str] | None, *, actor_id: UUID) -> int:
        """Send, then delete: a crash in between sends the message twice, and every consumer is idempotent."""
        queue = self._queue(name)
        with self._lock(f"dlq:{name}"):
            chosen = self._chosen(queue, message_ids)
            for message in chosen:
                self._queues.send(source_of(queue, message), message)
                self._queues.delete(queue.url, message)
        self._record(actor_id, "dlq.replay", name, chosen, {})
        return len(chosen)

    def discard(self, name: str, message_ids: Sequence[str] | None, *, reason: str, actor_id: UUID) -> int:
        if not reason.strip():
            raise Refused("the request is not valid", fields=[{"field": "reason", "reason": "is needed"}])
        queue = self._queue(name)
        with self._lock(f"dlq:{name}"):
            chosen = self._chosen(queue, message_ids)
            for message in chosen:
                self._queues.delete(queue.url, message)
        self._record(actor_id, "dlq.discard", name, chosen, {"reason": reason})
        return len(chosen)

    def _chosen(self, queue: DeadLetterQueue, message_ids: Sequence[str] | None) -> list[DeadLetter]:
        found = self._queues.take(queue.url, limit=READ_LIMIT)
        chosen = [message for message in found if message_ids is None or message.message_id in message_ids]
        others = [message for message in found if message not in chosen]
        self._queues.put_back(queue.url, others)
        return chosen

    def _queue(self, name: str) -> DeadLetterQueue:
        if name not in self._dead_letter_queues:
            raise NoSuchQueue
        return self._dead_letter_queues[name]

    def _record(
        self, actor_id: UUID, action: str, name: str, messages: Sequence[DeadLetter], details: Mapping[str, object]
    ) -> None:
        message_ids = [message.message_id for message in messages]
        self._journal.record(
            actor_id=actor_id, action=action, target=name, details={**details, "messageIds": message_ids}
        )


def source_of(queue: DeadLetterQueue, message: DeadLetter) -> str:
    """The queue in which the message failed. Where a dead-letter queue serves several, an attribute of SQS names it."""
    if len(queue.source_urls) == 1:
        return queue.source_urls[0]
    name = message.source_arn.rpartition(":")[2]
    for url in queue.source_urls:
        if url.rstrip("/").rpartition("/")[2] == name:
            return url
    raise Refused("the message does not name its source queue", message_id=message.message_id)
