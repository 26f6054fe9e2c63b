"""The language model of the local stack. It is installed behind, so that the stack serves before it has arrived."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from artiway.generations import services
from local.processes import Processes
from local.servers import ServerFailed

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".tools/llm"
READY = ".ready"  # written by `make` after the last package
DOWNLOAD = "127 MB"
PROVIDER, MODEL = "local", "smollm2-135m"
WATCH_SECONDS = 1.0
PROGRESS_SECONDS = 10
START_SECONDS = 60
STOP_SECONDS = 5
STARTS = 20  # a model that cannot run must not fill the log


def document(port: int, model: str = MODEL) -> str:
    """Providers and routes of a stack whose every text is written by one model on this machine. It costs nothing."""
    name = f"{PROVIDER}/{model}"
    provider = {
        "name": PROVIDER,
        "baseUrl": f"http://127.0.0.1:{port}/v1",
        "models": [{"id": model, "inputPoints": 0, "outputPoints": 0}],
    }
    routes = {service: {"paid": [name], "free": [name]} for service in services.load()}
    return json.dumps({"providers": [provider], "routes": routes})


class TextModel:
    """The model's process, started again when it ends. A text that comes before it waits: its provider is away."""

    def __init__(self, home: Path, *, environment: Path = ENVIRONMENT) -> None:
        self._home, self._environment = home.resolve(), environment
        self._is_stopping = threading.Event()
        self._is_ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, port: int, report: Callable[[str], None] = lambda _line: None) -> None:
        """Return at once: a thread installs the model if it must, starts it and watches it."""
        self._port, self._report = port, report
        self._processes = Processes(self._home)
        self._thread = threading.Thread(target=self._run, name="text-model", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join()

    def wait_until_ready(self, seconds: float) -> bool:
        return self._is_ready.wait(seconds)

    def pids(self) -> list[int]:
        return [child.pid for child in self._children if child.poll() is None]

    def _run(self) -> None:
        if not (self._environment / READY).exists() and not self._install():
            return
        main = str(Path(__file__).with_name("text_model_main.py"))
        for _ in range(STARTS):
            begun = time.monotonic()
            with self._child([str(self._environment / "bin/python"), main, str(self._port)], "text-model.log") as child:
                if self._serves(child):
                    self._is_ready.set()
                    self._report(f"language model on port {self._port}, loaded in {time.monotonic() - begun:.1f} s")
                    while child.poll() is None and not self._is_stopping.wait(WATCH_SECONDS):
                        pass
                self._is_ready.clear()
            if self._is_stopping.is_set():
                return
            self._report(f"the language model ended with status {child.returncode}, see logs/text-model.log")
            self._is_stopping.wait(WATCH_SECONDS)
        self._report(f"the language model was started {STARTS} times and is not started again")

    def _install(self) -> bool:
        """Let `make` install the locked packages, and report that it goes on. The stack's own are not touched."""
        self._report(f"language model: downloading {DOWNLOAD} behind; texts wait until it is here")
        begun = time.monotonic()
        with self._child(["make", "--silent", f".tools/llm/{READY}"], "text-model-install.log") as child:
            while child.poll() is None and not self._is_stopping.is_set():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(WATCH_SECONDS)
                waited_s = round(time.monotonic() - begun)
                if child.poll() is None and waited_s % PROGRESS_SECONDS == 0:
                    self._report(f"language model: {self._arrived_mb()} MB unpacked after {waited_s} s")
        if self._is_stopping.is_set():
            return False
        if child.returncode != 0:
            self._report("the language model was not installed, so texts wait in vain: logs/text-model-install.log")
            return False
        self._report(f"language model: installed in {time.monotonic() - begun:.0f} s")
        return True

    def _arrived_mb(self) -> int:
        total = 0
        for file in self._environment.rglob("*"):
            with contextlib.suppress(OSError):
                total += file.stat().st_size
        return total // 1_000_000

    @contextlib.contextmanager
    def _child(self, command: list[str], log: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process that ends with the block, and so do the processes that it started."""
        folder = self._home / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / log).open("ab") as output:
            child = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._processes.add(child.pid)
        self._children = [child]
        try:
            yield child
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if child.poll() is None:
                    os.killpg(child.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(STOP_SECONDS)
            self._processes.remove(child.pid)

    def _serves(self, child: subprocess.Popen[bytes]) -> bool:
        """Wait until the model is loaded. The server answers 503 before."""
        deadline = time.monotonic() + START_SECONDS
        while child.poll() is None and time.monotonic() < deadline and not self._is_stopping.wait(0.05):
            if is_healthy(self._port):
                return True
        return False


def is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def check_installed(environment: Path = ENVIRONMENT) -> None:
    """For tests, which do not wait for a download."""
    if not (environment / "bin/python").exists():
        raise ServerFailed("the language model is not installed: `make .tools/llm/.ready` installs it")
