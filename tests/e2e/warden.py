"""Starts `python -m local`, interrupts it at a given moment, and reports which of its processes outlive it.

A process of its own: the kernel hands it every orphan of the launcher (PR_SET_CHILD_SUBREAPER), so none is missed.
Arguments: the moment (`line:<text>` printed, or `process:<text>` in a command), the signals, comma separated.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

SECONDS = 60
PR_SET_CHILD_SUBREAPER = 36


def descendants() -> dict[int, str]:
    """Living processes below this one, with their commands. Reads these alone: a moment may last a few milliseconds."""
    found: dict[int, str] = {}
    unseen = [os.getpid()]
    while unseen:
        for file in Path(f"/proc/{unseen.pop()}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                children = [int(pid) for pid in file.read_text().split()]
                found |= {pid: command(pid) for pid in children if is_alive(pid)}
                unseen += children
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def end_all() -> None:
    while left := descendants():
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def main(moment: str, *names: str) -> dict[str, object]:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    launcher = subprocess.Popen(
        [sys.executable, "-m", "local"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    lines: list[str] = []

    def read() -> None:
        assert launcher.stdout is not None
        lines.extend(line.decode() for line in launcher.stdout)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    kind, _, text = moment.partition(":")
    deadline = time.monotonic() + SECONDS
    while not any(text in one for one in (lines if kind == "line" else descendants().values())):
        if launcher.poll() is not None or time.monotonic() > deadline:
            end_all()
            return {"fault": f"{moment} did not come", "output": "".join(lines)}
        time.sleep(0.002)
    for name in names:
        number = signal.Signals[name]
        if number == signal.SIGINT:
            os.killpg(launcher.pid, number)  # as a terminal sends it
        else:
            launcher.send_signal(number)
        time.sleep(0.05)
    status = launcher.wait(SECONDS)
    left = descendants()
    end_all()
    reader.join(SECONDS)
    return {"status": status, "left": sorted(left.values()), "output": "".join(lines)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], *sys.argv[2].split(","))))
