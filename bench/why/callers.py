"""The callers of `bench.why`, each a process of its own."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from artiway import bootstrap

BARRIER_SECONDS = 300
_barrier: Any = None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Logs and metrics are lines on standard output, where the tables are."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


def ask_why(tenant_id: UUID, task_id: UUID) -> None:
    (reason,) = bootstrap.why().explain(tenant_id=tenant_id, task_id=task_id).reasons
    if reason.eta_s is None or reason.position is None:
        raise RuntimeError(f"no forecast: {reason.detail}")


def ask_estimate(tenant_id: UUID, _task_id: UUID) -> None:
    found = bootstrap.tasks().estimate(
        tenant_id=tenant_id, tool="style", inputs={"product": uuid4()}, params={}, count=None
    )
    if found.timing.end_s is None:
        raise RuntimeError(f"no forecast: {found.timing.detail}")


ASK: dict[str, Callable[[UUID, UUID], None]] = {"why": ask_why, "estimate": ask_estimate}


def meet(barrier: Any) -> None:
    global _barrier
    _barrier = barrier


def call(name: str, tasks: Sequence[tuple[UUID, UUID]], seconds: float) -> tuple[list[float], float]:
    """Milliseconds of each call, and the CPU time of all."""
    with quiet():
        bootstrap.forget_all()
        ask, chance = ASK[name], random.Random(os.getpid())
        for tenant_id, task_id in tasks[:3]:
            ask(tenant_id, task_id)
        _barrier.wait(BARRIER_SECONDS)
        took, cpu = [], time.process_time()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            tenant_id, task_id = chance.choice(tasks)
            began = time.perf_counter()
            ask(tenant_id, task_id)
            took.append((time.perf_counter() - began) * 1000)
        return took, (time.process_time() - cpu) * 1000
