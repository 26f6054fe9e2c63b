"""One trace id from the HTTP request to the last consumer, in the shape of X-Ray's root."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextvars import ContextVar

_TRACE_ID = re.compile(r"(?:^|;|Root=)(1-[0-9a-f]{8}-[0-9a-f]{24})(?:;|$)")
_current: ContextVar[str] = ContextVar("artiway_trace_id", default="")


def new_trace_id() -> str:
    return f"1-{int(time.time()):08x}-{secrets.token_hex(12)}"


def parse(header: str | None) -> str | None:
    found = _TRACE_ID.search(header or "")
    return found.group(1) if found else None


def current() -> str:
    return _current.get() or parse(os.environ.get("_X_AMZN_TRACE_ID")) or ""


def follow(trace_id: str) -> None:
    """Continue under the trace id of a task, until the `restored` or `traced` block around this call ends."""
    if trace_id:
        _current.set(trace_id)


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """After the block the trace id is the one before it."""
    token = _current.set(_current.get())
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.contextmanager
def traced(trace_id: str | None) -> Iterator[str]:
    """Run the block under the given trace id, or under a new one."""
    chosen = trace_id or current() or new_trace_id()
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)
