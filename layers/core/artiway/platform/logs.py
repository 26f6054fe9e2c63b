"""Log lines are a fixed message plus fields, one JSON object each, with secrets masked whatever the caller passed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from artiway.platform import tracing

MASK = "***"
_LEVELS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40}
_SECRET_NAME = re.compile(
    r"password|passwd|secret|token|authorization|cookie|api_?key|api_?v3|private|credential|signature|ciphertext|session_?key",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]*"  # a JWT
    r"|ak_[0-9a-f]{8,}_[\w-]+|rt_[\w-]{16,}"  # an API key, a refresh token
    r"|-----BEGIN[\s\S]+?-----END[^-]*-----"
    r"|(?<=://)[^/\s:@]+:[^@\s]+(?=@)"  # user:password in a URL
    r"|(?<=token=)[^&\s\"']+",
    re.IGNORECASE,
)
_SAFE_NAMES = frozenset({"token_id", "key_id", "token_type"})
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_context: ContextVar[Mapping[str, Any]] = ContextVar("artiway_log_context", default=_NOTHING)


def masked(value: Any, name: str = "") -> Any:
    """A copy of the value that is safe to write down."""
    if name and name not in _SAFE_NAMES and _SECRET_NAME.search(name):
        return MASK
    if isinstance(value, str):
        return _SECRET_VALUE.sub(MASK, value)
    if isinstance(value, Mapping):
        return {str(key): masked(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [masked(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return _SECRET_VALUE.sub(MASK, str(value))


@contextlib.contextmanager
def context(**fields: Any) -> Iterator[None]:
    """Fields that every line inside carries."""
    token = _context.set({**_context.get(), **fields})
    try:
        yield
    finally:
        _context.reset(token)


class Logger:
    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, message: str, **fields: Any) -> None:
        self._write("DEBUG", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._write("INFO", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._write("WARNING", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._write("ERROR", message, fields)

    def exception(self, message: str, **fields: Any) -> None:
        """An error with the exception that is being handled, whole."""
        self._write("ERROR", message, {**fields, "exception": traceback.format_exc()})

    def _write(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        if _LEVELS[level] < _LEVELS.get(os.environ.get("ARTIWAY_LOG_LEVEL", "INFO"), 20):
            return
        line = {
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "logger": self._name,
            "message": message,
            "trace_id": tracing.current(),
            **masked(_context.get()),
            **masked(fields),
        }
        sys.stdout.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
        sys.stdout.flush()
