"""Servers that hang: the process is stopped by a signal, its sockets stay open and the kernel goes on answering TCP."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from local.servers import Server

DATABASE = "frozen"


# Longer than any test needs. A caller without a time limit goes on after it, and its test fails instead of hanging.
LONGEST_S = 60


@contextlib.contextmanager
def frozen(server: Server) -> Iterator[None]:
    """Stop the server and every process of its own. The parent goes first, so that no new child is missed."""
    stopped = [server.process.pid]

    def resume() -> None:
        for pid in reversed(stopped):
            os.kill(pid, signal.SIGCONT)

    os.kill(server.process.pid, signal.SIGSTOP)
    for pid in _children(server.process.pid):
        os.kill(pid, signal.SIGSTOP)
        stopped.append(pid)
    limit = threading.Timer(LONGEST_S, resume)
    limit.start()
    try:
        yield
    finally:
        limit.cancel()
        limit.join()
        resume()


def _children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@dataclass
class Asked:
    """What was asked of Redis and not answered, and the time that this took."""

    unanswered: list[str] = field(default_factory=list)
    waited_s: float = 0.0


@contextlib.contextmanager
def redis_waits(monkeypatch: Any) -> Iterator[Asked]:
    """Count below all breakers: at redis-py itself."""
    asked, execute = Asked(), redis.Redis.execute_command

    def counted(client: redis.Redis, *arguments: Any, **options: Any) -> Any:
        began = time.monotonic()
        try:
            return execute(client, *arguments, **options)
        except (redis.ConnectionError, redis.TimeoutError):
            asked.unanswered.append(str(arguments[0]))
            raise
        finally:
            asked.waited_s += time.monotonic() - began

    with monkeypatch.context() as patch:
        patch.setattr(redis.Redis, "execute_command", counted)
        yield asked
