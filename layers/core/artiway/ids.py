"""Identifiers: a time-ordered UUID in the database, a prefixed opaque word on the wire."""

from __future__ import annotations

import os
import time
from uuid import UUID

from artiway.errors import NotFound


def new_id() -> UUID:
    """A version 7 UUID: rows made together lie together in the index."""
    unix_ms = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (unix_ms & (1 << 48) - 1) << 80 | random
    value = value & ~(0xF << 76) | 7 << 76
    return UUID(int=value & ~(0b11 << 62) | 0b10 << 62)


def to_wire(prefix: str, value: UUID) -> str:
    return f"{prefix}_{value.hex}"


def from_wire(prefix: str, text: str) -> UUID:
    """A word that cannot name anything is simply not found."""
    head, _, digits = text.partition("_")
    if head == prefix and len(digits) == 32 and digits.isascii() and digits.isalnum() and digits == digits.lower():
        try:
            return UUID(digits)
        except ValueError:
            pass
    raise NotFound(f"there is no such {_NAMES.get(prefix, prefix)}")


_NAMES = {"tnt": "tenant", "usr": "user", "ord": "order", "ak": "API key"}
