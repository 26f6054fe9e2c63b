"""One JSON line per event: a fixed message plus fields."""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime
from typing import Any

_LOCK = threading.Lock()


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
        line = json.dumps(
            {"level": level, "at": at, "service": self._service, "message": message, **fields}, default=str
        )
        with _LOCK:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
