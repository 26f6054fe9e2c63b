"""A supervised program and what it leaves: each scene is a program of its own, watched from outside."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from local.processes import identity

ROOT = Path(__file__).resolve().parents[3]
# The grandchild ignores SIGINT and has a session of its own: only its parent's memory leads to it.
GRANDCHILD = (
    "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
PROGRAM = f"""
import os, signal, subprocess, sys, threading
from local import supervisor

supervisor.GRACE_SECONDS = 0.2

def program(interrupted):
    command = [sys.executable, "-c", {GRANDCHILD!r}]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    child.stdout.readline()
    print(os.getpid(), child.pid, flush=True)
    {{ending}}

sys.exit(supervisor.supervised(program))
"""
WAITS = "interrupted.wait(); return 3"
LOSES = """
    class Careless:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)  # an exception raised here would be lost
    Careless()
    interrupted.wait()
    return 3
"""


@pytest.mark.parametrize(
    ("ending", "signals", "status"),
    [
        (WAITS, [signal.SIGINT], 3),
        (WAITS, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], 3),
        (LOSES.strip(), [], 3),
        ("raise RuntimeError('a fault')", [], 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", [], 137),
    ],
    ids=["a signal", "several signals", "a signal in a destructor", "an exception", "a kill"],
)
def test_a_program_that_ends_leaves_no_process(ending: str, signals: list[signal.Signals], status: int) -> None:
    text = PROGRAM.format(ending=ending)
    with subprocess.Popen(
        [sys.executable, "-c", text], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as outside:
        assert outside.stdout is not None
        pids = [int(pid) for pid in outside.stdout.readline().split()]
        for number in signals:
            outside.send_signal(number)
        assert outside.wait(30) == status
    assert len(pids) == 2
    assert [identity(pid) for pid in pids] == ["", ""]


def test_a_supervisor_that_is_killed_takes_its_program_along() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(ending=WAITS)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as outside:
        assert outside.stdout is not None
        program, grandchild = (int(pid) for pid in outside.stdout.readline().split())
        outside.kill()
        outside.stdout.read()  # ends when the program, which also writes to it, is gone
    assert identity(program) == ""
    subprocess.run(["kill", "-9", str(grandchild)], check=True)
