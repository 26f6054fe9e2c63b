"""Powertools' logger: one JSON object per line, with secrets masked.

A line is a fixed message plus fields: `logger.info("hold placed", task_id=…, amount_points=…)`. A field may not have
the name of an attribute of `logging.LogRecord` ("name", "args", "module" …): `logging` refuses those.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from aws_lambda_powertools.logging import Logger as PowertoolsLogger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from artiway.platform import tracing

SERVICE = "artiway"
MASK = "***"
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


def masked(value: Any, name: str = "") -> Any:
    """A copy of the value in which secrets are masked."""
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


class MaskingFormatter(LambdaPowertoolsFormatter):
    """Powertools' line with our trace id and the short name of the logger. Every field is masked."""

    def format(self, record: logging.LogRecord) -> str:
        record.__dict__.setdefault("trace_id", tracing.current())
        record.__dict__.setdefault("logger", record.name.split(".")[1])
        return super().format(record)

    def serialize(self, log: Any) -> str:
        return super().serialize(masked(log))


class StandardOutput(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stdout`: the runtime and pytest replace it."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stdout
        super().emit(record)


def _configured() -> PowertoolsLogger:
    """The parent of all our loggers. It has the handler, the level and the sampling."""
    parent = PowertoolsLogger(
        service=SERVICE,
        sampling_rate=float(os.environ.get("ARTIWAY_LOG_SAMPLE_RATE", "0")) or None,
        logger_handler=StandardOutput(),
        logger_formatter=MaskingFormatter(
            log_record_order=["timestamp", "level", "logger", "message", "trace_id"],
            utc=True,
            use_rfc3339=True,
            serialize_stacktrace=False,  # the line has the traceback as text
            xray_trace_id=None,  # `trace_id` has it, and goes on from queue to queue
        ),
    )
    # Powertools prefers the level at which Lambda filters lines. That one lets sampled lines pass, so it is lower.
    parent.initial_log_level = os.environ.get("ARTIWAY_LOG_LEVEL", "INFO")
    parent.refresh_sample_rate_calculation()
    # The runtime gives Lambda's level to all libraries too. At DEBUG botocore logs whole requests.
    root = logging.getLogger()
    root.setLevel(max(root.level, logging.INFO))
    return parent


_parent = _configured()


class Logger(PowertoolsLogger):
    """A named logger below ours. All share one level, so that a sampled request is logged in full."""

    def __init__(self, name: str) -> None:
        super().__init__(service=f"{SERVICE}.{name}", child=True)
        self._logger.setLevel(logging.NOTSET)  # Powertools gives a child the level of the environment


@contextlib.contextmanager
def context(**fields: Any) -> Iterator[None]:
    """Fields that every line inside carries. The outermost one is a request or a message: it is sampled anew."""
    before = _parent.thread_safe_get_current_keys()
    if _parent.sampling_rate and not before:
        _parent.refresh_sample_rate_calculation()
    _parent.thread_safe_append_keys(**fields)
    try:
        yield
    finally:
        _parent.thread_safe_clear_keys()
        _parent.thread_safe_append_keys(**before)
