"""The models of the local stack, for texts and pictures. They are installed behind: the stack serves before."""

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
from dataclasses import dataclass
from pathlib import Path

from artiway.generations import services
from local.processes import Processes
from local.servers import ServerFailed

ROOT = Path(__file__).resolve().parent.parent
READY = ".ready"  # written by `make` after the last package
PROVIDER, MODEL = "local", "smollm2-135m"
PICTURE_PROVIDER, PICTURE_MODEL, PICTURE_SERVICE = "local_pictures", "ppocr-v6", "image_tags"
WATCH_SECONDS = 1.0
PROGRESS_SECONDS = 10
START_SECONDS = 60
STOP_SECONDS = 5
STARTS = 20  # a model that cannot run must not fill the log


@dataclass(frozen=True)
class Kind:
    """A model: its name in reports, the tool whose environment it runs in, its program and its log."""

    title: str
    tool: str
    main: str
    log: str
    download: str

    @property
    def environment(self) -> Path:
        return ROOT / ".tools" / self.tool


LANGUAGE = Kind("language model", "llm", "text_model_main.py", "text-model", "127 MB")
PICTURES = Kind("reader of pictures", "ocr", "picture_model_main.py", "picture-model", "142 MB")


def document(port: int, model: str = MODEL, *, picture_port: int | None = None) -> str:
    """Providers and routes of a stack whose every text is written by one model on this machine. It costs nothing.

    With `picture_port` another one reads the pictures.
    """
    name = f"{PROVIDER}/{model}"
    providers = [_provider(PROVIDER, port, model)]
    routes = {service: {"paid": [name], "free": [name]} for service in services.load()}
    if picture_port is not None:
        providers.append(_provider(PICTURE_PROVIDER, picture_port, PICTURE_MODEL))
        reader = f"{PICTURE_PROVIDER}/{PICTURE_MODEL}"
        routes[PICTURE_SERVICE] = {"paid": [reader], "free": [reader]}
    return json.dumps({"providers": providers, "routes": routes})


def _provider(name: str, port: int, model: str) -> dict[str, object]:
    models = [{"id": model, "inputPoints": 0, "outputPoints": 0}]
    return {"name": name, "baseUrl": f"http://127.0.0.1:{port}/v1", "models": models}


class TextModel:
    """A model's process, started again when it ends. A text that comes before it waits: its provider is away."""

    def __init__(self, home: Path, kind: Kind = LANGUAGE, *, environment: Path | None = None) -> None:
        self._home, self._kind, self._environment = home.resolve(), kind, environment or kind.environment
        self._is_stopping = threading.Event()
        self._is_ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, port: int, report: Callable[[str], None] = lambda _line: None) -> None:
        """Return at once: a thread installs the model if it must, starts it and watches it."""
        self._port, self._report = port, report
        self._processes = Processes(self._home)
        self._thread = threading.Thread(target=self._run, name=self._kind.log, daemon=True)
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
        main = str(Path(__file__).with_name(self._kind.main))
        for _ in range(STARTS):
            begun = time.monotonic()
            program = [str(self._environment / "bin/python"), main, str(self._port)]
            with self._child(program, f"{self._kind.log}.log") as child:
                if self._serves(child):
                    self._is_ready.set()
                    self._report(f"{self._kind.title} on port {self._port}, loaded in {time.monotonic() - begun:.1f} s")
                    while child.poll() is None and not self._is_stopping.wait(WATCH_SECONDS):
                        pass
                self._is_ready.clear()
            if self._is_stopping.is_set():
                return
            self._report(f"the {self._kind.title} ended with status {child.returncode}, see logs/{self._kind.log}.log")
            self._is_stopping.wait(WATCH_SECONDS)
        self._report(f"the {self._kind.title} was started {STARTS} times and is not started again")

    def _install(self) -> bool:
        """Let `make` install the locked packages, and report that it goes on. The stack's own are not touched."""
        title, log = self._kind.title, f"{self._kind.log}-install.log"
        self._report(f"{title}: downloading {self._kind.download} behind; texts wait until it is here")
        begun = time.monotonic()
        with self._child(["make", "--silent", f".tools/{self._kind.tool}/{READY}"], log) as child:
            while child.poll() is None and not self._is_stopping.is_set():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(WATCH_SECONDS)
                waited_s = round(time.monotonic() - begun)
                if child.poll() is None and waited_s % PROGRESS_SECONDS == 0:
                    self._report(f"{title}: {self._arrived_mb()} MB unpacked after {waited_s} s")
        if self._is_stopping.is_set():
            return False
        if child.returncode != 0:
            self._report(f"the {title} was not installed, so texts wait in vain: logs/{log}")
            return False
        self._report(f"{title}: installed in {time.monotonic() - begun:.0f} s")
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


def check_installed(kind: Kind = LANGUAGE) -> None:
    """For tests, which do not wait for a download."""
    if not (kind.environment / "bin/python").exists():
        raise ServerFailed(f"the {kind.title} is not installed: `make .tools/{kind.tool}/{READY}` installs it")
