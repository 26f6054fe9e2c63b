"""One JSON line per event: a fixed message plus fields."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

_LOCK = threading.Lock()
_trace_id: ContextVar[str] = ContextVar("worker_trace_id", default="")


@contextlib.contextmanager
def traced(trace_id: str) -> Iterator[None]:
    """Lines of this thread carry the trace id of the work message."""
    token = _trace_id.set(trace_id)
    try:
        yield
    finally:
        _trace_id.reset(token)


class Logger:
    def __init__(self, service: str) -> None:
        self._service = service

    def info(self, message: str, **fields: Any) -> None:
        self._write("INFO", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._write("WARNING", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._write("ERROR", message, fields)

    def _write(self, level: str, message: str, fields: dict[str, Any]) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        trace = {"trace_id": _trace_id.get()} if _trace_id.get() else {}
        line = json.dumps(
            {"level": level, "at": at, "service": self._service, "message": message, **trace, **fields}, default=str
        )
        with _LOCK:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
