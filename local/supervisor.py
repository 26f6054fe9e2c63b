"""Runs a program in a child process and, when the program ends, ends every process that it started.

A signal sets an event and the program decides where to stop. An exception raised by a signal handler could arrive
between a fork and the line that stores the child's pid, and Python drops it inside a destructor. A killed program
cannot stop its children; then the kernel makes them children of the supervisor (PR_SET_CHILD_SUBREAPER), which ends
them without a list. On systems other than Linux the next run ends the processes on record (local/processes.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Numbers of linux/prctl.h.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# PostgreSQL shuts down cleanly in this time; a process that ignores SIGINT is killed after it.
GRACE_SECONDS = 5
POLL_SECONDS = 0.02
CHECK_SECONDS = 0.1
INTERRUPTED = 130
T = TypeVar("T")


def supervised(program: Callable[[threading.Event], int]) -> int:
    """Run the program and return its exit status. SIGINT, SIGTERM and SIGHUP set the event that the program gets."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    supervisor = os.getpid()
    child = os.fork()
    if child == 0:
        return _run(program, supervisor, mask)
    return _supervise(child, mask)


def _run(program: Callable[[threading.Event], int], supervisor: int, mask: set[int | signal.Signals]) -> int:
    # If the supervisor is killed, the kernel kills the program too; the next run ends their other processes.
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        return INTERRUPTED
    interrupted = threading.Event()
    arrived, arrive = os.pipe()
    os.set_blocking(arrive, False)

    def note(_number: int, _frame: FrameType | None) -> None:
        # The handler does not set the event: the signal may have interrupted a wait that holds the event's lock.
        with contextlib.suppress(BlockingIOError):
            os.write(arrive, b"!")

    def watch() -> None:
        os.read(arrived, 1)
        interrupted.set()
        with contextlib.suppress(OSError):  # the terminal may be gone
            print("stopping ...", flush=True)

    # A handler and not SIG_IGN, which children would inherit.
    for number in SIGNALS:
        signal.signal(number, note)
    threading.Thread(target=watch, name="signals", daemon=True).start()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        return program(interrupted)
    finally:
        _ignore_signals()


async def until_interrupted(coroutine: Coroutine[Any, Any, T], interrupted: threading.Event) -> T:
    """Return the coroutine's result. A signal cancels it and raises KeyboardInterrupt."""
    task = asyncio.ensure_future(coroutine)
    while not task.done():
        if interrupted.is_set():
            task.cancel()
        await asyncio.wait({task}, timeout=CHECK_SECONDS)
    if task.cancelled() and interrupted.is_set():
        raise KeyboardInterrupt
    return task.result()


def _supervise(child: int, mask: set[int | signal.Signals]) -> int:
    def forward(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for number in SIGNALS:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    while True:
        ended, status = os.wait()  # the program, or an orphan of one of its processes
        if ended == child:
            break
    _ignore_signals()
    _end_descendants()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _ignore_signals() -> None:
    """Python restores the default action of handled signals before it exits, but leaves ignored ones ignored."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _end_descendants() -> None:
    """Send SIGINT to each descendant, SIGKILL after the grace period, and return when none is alive."""
    interrupted: set[int] = set()
    deadline = time.monotonic() + GRACE_SECONDS
    while _has_children():
        is_late = time.monotonic() > deadline
        for pid in _descendants():
            if is_late or pid not in interrupted:
                interrupted.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL if is_late else signal.SIGINT)
        time.sleep(POLL_SECONDS)


def _has_children() -> bool:
    """Reap the children that have ended. Orphans become children, so no child means no descendant."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _descendants() -> list[int]:
    """The process tree below this process, read from /proc. A tree that changes meanwhile may lack processes."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, unvisited = [], [os.getpid()]
    while unvisited:
        children = parents.get(unvisited.pop(), [])
        found += children
        unvisited += children
    return found


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
