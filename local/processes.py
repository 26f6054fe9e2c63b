"""The pids that a run started, kept on disk. After a kill -9 the next run ends these processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

GRACE_SECONDS = 5


class Processes:
    """One file per process. It holds the start time, which a later process with the same pid does not share."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "processes"
        self._folder.mkdir(parents=True, exist_ok=True)

    def add(self, pid: int) -> None:
        (self._folder / str(pid)).write_text(identity(pid))

    def remove(self, pid: int) -> None:
        (self._folder / str(pid)).unlink(missing_ok=True)

    def end_leftovers(self) -> list[int]:
        """Send SIGINT, then SIGKILL; return when the processes have ended. PostgreSQL stops cleanly on SIGINT."""
        found = {int(file.name): file.read_text() for file in self._folder.iterdir()}
        ours = [pid for pid, known in found.items() if known and identity(pid) == known]
        for number in (signal.SIGINT, signal.SIGKILL):
            for pid in ours:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            deadline = time.monotonic() + GRACE_SECONDS
            while any(identity(pid) == found[pid] for pid in ours) and time.monotonic() < deadline:
                time.sleep(0.02)
        for pid in found:
            self.remove(pid)
        return ours


def identity(pid: int) -> str:
    """The pid and start time of a process; empty if it has ended or is a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    if not Path("/proc/self/stat").exists():
        found = subprocess.run(
            ["ps", "-o", "lstart=,stat=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return "" if " Z" in found.stdout else found.stdout.strip().rsplit(" ", 1)[0]
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] == "Z" else f"{pid} {fields[19]}"


def holder_of(port: int) -> str:
    """The process that listens on a local port, as ` (pid 12: python …)`; empty where /proc does not show it."""
    with contextlib.suppress(OSError):
        listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        sockets = {f"socket:[{f[9]}]" for f in listening if int(f[1].rpartition(":")[2], 16) == port and f[3] == "0A"}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if any(str(fd.readlink()) in sockets for fd in (process / "fd").iterdir()):
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    return f" (pid {process.name}: {command[:80]})"
    return ""
