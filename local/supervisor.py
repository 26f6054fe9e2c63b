"""Runs a program in a child process. When the program ends, no process that it started is left.

The program gets an event that a signal sets, and stops at a place of its own choice: an exception out of a signal
handler can come between a fork and the line that remembers the child, and is lost inside a destructor. A program that
is killed stops nothing. Then the kernel hands every orphan to the supervisor (PR_SET_CHILD_SUBREAPER), which ends them
and needs no list of them. Without Linux the next run ends the processes that are on record.
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
# PostgreSQL shuts down cleanly in this time; what ignores SIGINT is killed after it.
GRACE_SECONDS = 5
POLL_SECONDS = 0.02
LOOK_SECONDS = 0.1
INTERRUPTED = 130
T = TypeVar("T")


def supervised(program: Callable[[threading.Event], int]) -> int:
    """The program's exit status. SIGINT, SIGTERM and SIGHUP set the event that the program gets."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    supervisor = os.getpid()
    child = os.fork()
    if child == 0:
        return _run(program, supervisor, mask)
    return _supervise(child, mask)


def _run(program: Callable[[threading.Event], int], supervisor: int, mask: set[int | signal.Signals]) -> int:
    # A supervisor that is killed takes the program with it; the next run ends what both leave.
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        return INTERRUPTED
    interrupted = threading.Event()
    arrived, arrive = os.pipe()
    os.set_blocking(arrive, False)

    def note(_number: int, _frame: FrameType | None) -> None:
        # Not the event itself: the signal may have interrupted a wait for it, which holds its lock.
        with contextlib.suppress(BlockingIOError):
            os.write(arrive, b"!")

    def watch() -> None:
        os.read(arrived, 1)
        interrupted.set()
        with contextlib.suppress(OSError):  # the terminal may be gone
            print("stopping ...", flush=True)

    # A handler, not SIG_IGN: children start with default signals.
    for number in SIGNALS:
        signal.signal(number, note)
    threading.Thread(target=watch, name="signals", daemon=True).start()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return program(interrupted)


async def until_interrupted(work: Coroutine[Any, Any, T], interrupted: threading.Event) -> T:
    """The result of the work, which is cancelled by a signal. Raises KeyboardInterrupt then."""
    task = asyncio.ensure_future(work)
    while not task.done():
        if interrupted.is_set():
            task.cancel()
        await asyncio.wait({task}, timeout=LOOK_SECONDS)
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
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
    end_descendants()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def end_descendants() -> None:
    """Ask all, then kill what is left, and return when none is left."""
    asked: set[int] = set()
    deadline = time.monotonic() + GRACE_SECONDS
    while left := _descendants():
        is_late = time.monotonic() > deadline
        for pid in left:
            if is_late or pid not in asked:
                asked.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL if is_late else signal.SIGINT)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(POLL_SECONDS)


def _descendants() -> list[int]:
    """Children, their children and so on, as the kernel lists them. None where there is no /proc."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, unseen = [], [os.getpid()]
    while unseen:
        children = parents.get(unseen.pop(), [])
        found += children
        unseen += children
    return found


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
