"""Starts a program of the stack, interrupts it at a given moment, and reports its processes that still run.

It is a separate process, because the kernel makes every orphan of the program its child (PR_SET_CHILD_SUBREAPER).
Arguments: the module, the moment (`line:<text>` printed, or `process:<text>` in a command line), the signals with
commas.
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

SECONDS = 180
PR_SET_CHILD_SUBREAPER = 36


def descendants() -> dict[int, str]:
    """Running descendants with their commands. It reads no other processes: a moment may last milliseconds."""
    found: dict[int, str] = {}
    unvisited = [os.getpid()]
    while unvisited:
        threads: list[Path] = []
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            threads += Path(f"/proc/{unvisited.pop()}/task").glob("*/children")
        for file in threads:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                children = [int(pid) for pid in file.read_text().split()]
                found |= {pid: command(pid) for pid in children if is_alive(pid)}
                unvisited += children
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
    while running := descendants():
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def main(module: str, moment: str, *names: str) -> dict[str, object]:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    program = subprocess.Popen(
        [sys.executable, "-m", module], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    lines: list[str] = []

    def read() -> None:
        assert program.stdout is not None
        lines.extend(line.decode() for line in program.stdout)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    kind, _, text = moment.partition(":")
    deadline = time.monotonic() + SECONDS
    while not any(text in one for one in (lines if kind == "line" else descendants().values())):
        if program.poll() is not None or time.monotonic() > deadline:
            end_all()
            return {"fault": f"{moment} did not happen", "output": "".join(lines)}
        time.sleep(0.002)
    for name in names:
        number = signal.Signals[name]
        if number == signal.SIGINT:
            os.killpg(program.pid, number)  # as a terminal sends it
        else:
            program.send_signal(number)
        time.sleep(0.05)
    try:
        status = program.wait(SECONDS)
    except subprocess.TimeoutExpired:
        return {"fault": f"still running {SECONDS} s after {names}", "output": "".join(lines)}
    finally:
        running = descendants()
        end_all()
    reader.join(SECONDS)
    return {"status": status, "running": sorted(running.values()), "output": "".join(lines)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], sys.argv[2], *sys.argv[3].split(","))))
