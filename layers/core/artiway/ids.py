"""Identifiers: a time-ordered UUID in the database, a prefixed hex text in the API."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from uuid import UUID

from artiway.errors import NotFound

Source = Callable[[], tuple[int, int]]


class _System:
    """The system's clock and randomness. Ids made in one millisecond increase, so rows sort by creation."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = (0, 0)

    def __call__(self) -> tuple[int, int]:
        unix_ms, random = time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10), "big")
        with self._lock:
            last_ms, last_random = self._last
            if unix_ms <= last_ms:
                self._last = last_ms, last_random + 1 + (random & 0xFFFF_FFFF)
            else:
                # One bit below the variant's two stays free for a carry.
                self._last = unix_ms, random & ~(1 << 61)
            return self._last


_SYSTEM = _System()
_source: ContextVar[Source] = ContextVar("artiway_id_source", default=_SYSTEM)


def new_id() -> UUID:
    """A version 7 UUID: rows created together are close in the index."""
    unix_ms, random = _source.get()()
    value = (unix_ms & (1 << 48) - 1) << 80 | random
    value = value & ~(0xF << 76) | 7 << 76
    return UUID(int=value & ~(0b11 << 62) | 0b10 << 62)


@contextlib.contextmanager
def drawn_from(source: Source) -> Iterator[None]:
    """Use another source of milliseconds and 80 random bits, so that a simulation can be repeated."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


def to_wire(prefix: str, value: UUID) -> str:
    return f"{prefix}_{value.hex}"


def from_wire(prefix: str, text: str) -> UUID:
    """Raises NotFound for a text that cannot be an id."""
    head, _, digits = text.partition("_")
    if head == prefix and len(digits) == 32 and digits.isascii() and digits.isalnum() and digits == digits.lower():
        try:
            return UUID(digits)
        except ValueError:
            pass
    raise NotFound(f"there is no such {_NAMES.get(prefix, prefix)}")


_NAMES = {"tnt": "tenant", "usr": "user", "ord": "order", "ak": "API key", "inp": "input"}
