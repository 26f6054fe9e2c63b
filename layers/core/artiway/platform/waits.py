"""How long one request, or one batch of messages, has waited for PostgreSQL so far.

A server that hangs answers no statement, so each statement would use up its own limit. A request therefore has one
limit for all statements, and after one wait without an answer it does not wait again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Waited:
    """`is_bounded`: all waits together have a limit. A batch has none, since it may hold many messages.

    `most_s` is a shorter limit than the function's own, for a route that has no long statement.
    """

    is_bounded: bool
    most_s: float = math.inf
    total_s: float = 0.0
    is_server_silent: bool = False

    def remaining_s(self, limit_s: float, *, request_s: float) -> float:
        """How long the next wait may take. Zero or less: do not wait."""
        if self.is_server_silent:
            return 0.0
        return min(limit_s, min(request_s, self.most_s) - self.total_s) if self.is_bounded else limit_s


_current: ContextVar[Waited | None] = ContextVar("artiway_waited", default=None)


def current() -> Waited:
    """Outside a request or a batch each wait is counted alone."""
    return _current.get() or Waited(is_bounded=False)


@contextlib.contextmanager
def counted(*, is_bounded: bool, most_s: float = math.inf) -> Iterator[None]:
    """Count the waits inside the block: a request (`is_bounded`) or a batch of messages."""
    token = _current.set(Waited(is_bounded, most_s))
    try:
        yield
    finally:
        _current.reset(token)
