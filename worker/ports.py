"""The services that the worker uses, as protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Protocol

from artiway.tasks.contract import BeatAnswer, Node, Terms, WorkHint
from worker.model import WorkMessage


class ServiceFailed(Exception):
    """A call to a queue, the store or `internal` failed. A retry may help."""


class ObjectMissing(Exception):
    """There is no such object."""


class ObjectExists(Exception):
    """The object exists, and is not replaced."""


class AddressRefused(Exception):
    """The address is not valid any more, or not for this request. A heartbeat answers with new addresses."""


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
    def claim(self, hint: WorkHint, *, worker_id: str) -> Node | None: ...
    def beat(self, worker: Mapping[str, Any], nodes: Sequence[Node]) -> BeatAnswer: ...
    def release(self, *, worker_id: str, nodes: Sequence[Node]) -> int: ...


class Store(Protocol):
    """The weights of models. `read` writes the object to the file, piece by piece."""

    def read(self, key: str, target: BinaryIO, *, max_bytes: int, bucket: str = "") -> None: ...


class Objects(Protocol):
    """Pictures, each by its address. `check` may raise to end a transfer."""

    def read(self, url: str, *, max_bytes: int, check: Callable[[], None]) -> bytes: ...
    def write(self, url: str, data: bytes, headers: Mapping[str, str], *, check: Callable[[], None]) -> None: ...
