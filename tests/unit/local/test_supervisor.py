"""Programs that run under the supervisor: when one ends, no process that it started is alive."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from local.processes import identity

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_SECONDS = 30
# The grandchild ignores SIGINT and has its own session, so a signal to the process group does not end it.
GRANDCHILD = (
    "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
PROGRAM = f"""
import os, signal, subprocess, sys, threading
from local import supervisor

supervisor.GRACE_SECONDS = 0.2

class SignalsAtExit:
    # Python deletes a global after it has restored the default signal handlers.
    def __init__(self):
        self.owner = os.getpid()

    def __del__(self, kill=os.kill, getpid=os.getpid, number=signal.SIGHUP):
        if getpid() == self.owner:
            kill(self.owner, number)

def program(interrupted):
    command = [sys.executable, "-c", {GRANDCHILD!r}]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    child.stdout.readline()
    print(os.getpid(), child.pid, flush=True)
    {{ending}}

{{before}}
sys.exit(supervisor.supervised(program))
"""
WAITS = "interrupted.wait(); return 3"
SIGNALS_IN_DESTRUCTOR = """
    class SignalsInDestructor:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)  # an exception raised here would be lost
    SignalsInDestructor()
    interrupted.wait()
    return 3
"""


def start(ending: str, *, before: str = "") -> subprocess.Popen[str]:
    text = PROGRAM.format(ending=ending.strip(), before=before)
    return subprocess.Popen(
        [sys.executable, "-c", text], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def pids_of(supervisor: subprocess.Popen[str]) -> list[int]:
    """The program and its child, which print their numbers when both run."""
    assert supervisor.stdout is not None
    return [int(pid) for pid in supervisor.stdout.readline().split()]


@pytest.mark.parametrize(
    ("ending", "signals", "status"),
    [
        (WAITS, [signal.SIGINT], 3),
        (WAITS, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], 3),
        (SIGNALS_IN_DESTRUCTOR, [], 3),
        ("raise RuntimeError('a fault')", [], 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", [], 137),
    ],
    ids=["a signal", "several signals", "a signal in a destructor", "an exception", "a kill"],
)
def test_program_that_ends_leaves_no_process(ending: str, signals: list[signal.Signals], status: int) -> None:
    with start(ending) as supervisor:
        pids = pids_of(supervisor)
        for number in signals:
            supervisor.send_signal(number)
        assert supervisor.wait(DEADLINE_SECONDS) == status
    assert len(pids) == 2
    assert [identity(pid) for pid in pids] == ["", ""]


@pytest.mark.parametrize("process", ["program", "supervisor"])
def test_signal_at_interpreter_exit_keeps_the_status(process: str) -> None:
    late = "sys.modules['__main__'].late = SignalsAtExit()"
    scene = (f"{late}; return 3", "") if process == "program" else ("return 3", late)
    with start(scene[0], before=scene[1]) as supervisor:
        assert len(pids_of(supervisor)) == 2
        assert supervisor.wait(DEADLINE_SECONDS) == 3


def test_descendant_missing_from_one_listing_is_ended() -> None:
    # A process whose parent ends while /proc is read is in no branch of that tree.
    before = "real = supervisor._descendants; calls = []; "
    before += "supervisor._descendants = lambda: real() if calls else (calls.append(1) or [])"
    with start("return 3", before=before) as supervisor:
        pids = pids_of(supervisor)
        assert supervisor.wait(DEADLINE_SECONDS) == 3
    assert [identity(pid) for pid in pids] == ["", ""]


def test_killed_supervisor_takes_its_program_along() -> None:
    with start(WAITS) as supervisor:
        program, grandchild = pids_of(supervisor)
        supervisor.kill()
    try:
        # The kernel kills the program when its parent has ended; that takes a moment.
        deadline = time.monotonic() + DEADLINE_SECONDS
        while identity(program) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert identity(program) == ""
    finally:
        subprocess.run(["kill", "-9", str(grandchild)], check=True)
