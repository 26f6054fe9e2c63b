"""Fetches the weights of the workers' networks while the stack already serves. Until then `preview` answers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from local.processes import Processes

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".tools/weights"
STOP_SECONDS = 5
OFF = "off"


class Weights:
    """The fetch as a service of the stack. `ARTIWAY_WEIGHTS=off` leaves it out."""

    name = "weights"

    def __init__(self, home: Path, report: Callable[[str], None]) -> None:
        self._processes, self._report = Processes(home.resolve()), report
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self, facts: Mapping[str, Any]) -> Mapping[str, Any]:
        if os.environ.get("ARTIWAY_WEIGHTS", "") == OFF:
            return {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.weights"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._processes.add(self._process.pid)
        self._reader = threading.Thread(target=self._read, name="weights", daemon=True)
        self._reader.start()
        return {}

    def stop(self) -> None:
        """A fetch that is stopped goes on with the next start."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._processes.remove(self._process.pid)
        if self._reader is not None:
            self._reader.join()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._report(line.rstrip())
