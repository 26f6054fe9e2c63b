"""The services that the worker uses, as protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from artiway.tasks.contract import BeatAnswer, Node, Terms
from worker.model import WorkMessage


class ServiceFailed(Exception):
    """A call to a queue, the store or `internal` failed. A retry may help."""


class ObjectMissing(Exception):
    """The store has no object with this key."""


class ObjectTooLarge(Exception):
    """The object has more bytes than the caller wants to read."""


class WorkQueue(Protocol):
    def receive(self, node_type: str, wait_s: int) -> WorkMessage | None: ...
    def delete(self, message: WorkMessage) -> None: ...
    def make_visible(self, message: WorkMessage) -> None: ...


class ProgressQueue(Protocol):
    def send(self, envelope: Mapping[str, Any], *, tenant_id: str) -> None: ...


class Internal(Protocol):
    def register(self, worker: Mapping[str, Any]) -> Terms: ...
    def claim(self, *, node_id: str, attempt: int, worker_id: str) -> Node | None: ...
    def beat(self, worker: Mapping[str, Any], nodes: Sequence[Node]) -> BeatAnswer: ...
    def release(self, *, worker_id: str, nodes: Sequence[Node]) -> int: ...


class Store(Protocol):
    def read(self, key: str, *, max_bytes: int, bucket: str = "") -> bytes: ...
    def write(self, key: str, data: bytes, content_type: str) -> None: ...
