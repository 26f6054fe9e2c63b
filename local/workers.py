"""CPU workers beside the stack, as ECS would run them: one per node type, started again when they die."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artiway.tasks import catalogue
from local.emulator import STACK_NAME, client
from local.lambdas import REGION
from local.processes import Processes
from local.servers import ServerFailed

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".tools/worker/bin/python"
WATCH_SECONDS = 1.0
DRAIN_SECONDS = 25


@dataclass(frozen=True)
class _Post:
    """A place for one worker process: which pool and types it serves."""

    pool: str
    types: tuple[str, ...]


def posts(per_type: int) -> list[_Post]:
    """One worker of the shared pool for each type, times `per_type`; enterprise tenants have one of their own."""
    shared = [_Post("gpu", (kind,)) for kind in catalogue.load().types for _ in range(per_type)]
    return [*shared, _Post("enterprise", tuple(catalogue.load().types))]


class Workers:
    """A service of the stack."""

    name = "workers"

    def __init__(self, home: Path, *, per_type: int = 1) -> None:
        self._home, self._per_type = home.resolve(), per_type
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._is_stopping = threading.Event()
        self._processes: Processes | None = None
        self._watcher: threading.Thread | None = None

    def start(self, facts: Mapping[str, Any]) -> Mapping[str, Any]:
        if not PYTHON.exists():
            raise ServerFailed("the worker's environment is not installed: `make run` installs it")
        self._processes = Processes(self._home)
        self._environment = _environment(facts)
        self._physical = _physical_ids(facts["awsUrl"])
        self._posts = posts(self._per_type)
        for place in range(len(self._posts)):
            self._start(place)
        self._watcher = threading.Thread(target=self._watch, name="workers", daemon=True)
        self._watcher.start()
        return {}

    def stop(self) -> None:
        """Let them hand back what they hold, then insist. Also after half a start: what was started is stopped."""
        self._is_stopping.set()
        if self._processes is None:
            return
        if self._watcher is not None and self._watcher.is_alive():
            self._watcher.join()
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(DRAIN_SECONDS)
            if process.poll() is None:
                process.kill()
                process.wait()
            self._processes.remove(process.pid)

    def pids(self) -> list[int]:
        return [process.pid for process in self._running.values() if process.poll() is None]

    def _start(self, place: int) -> None:
        assert self._processes is not None
        post = self._posts[place]
        urls = {kind: self._physical[queue_of(post.pool, kind)] for kind in post.types}
        log = self._home / "logs" / f"worker-{post.pool}-{place}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [str(PYTHON), "-m", "worker"],
                cwd=ROOT,
                env={
                    **self._environment,
                    "ARTIWAY_INTERNAL_FUNCTION": "InternalFunction",
                    "ARTIWAY_PROGRESS_QUEUE_URL": self._physical["ProgressQueue"],
                    "ARTIWAY_ARTEFACT_BUCKET": self._physical["ArtefactBucket"],
                    "ARTIWAY_WORK_QUEUE_URLS": json.dumps(urls),
                    "ARTIWAY_WORKER_POOL": post.pool,
                    "ARTIWAY_WORKER_TYPES": ",".join(post.types),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._running[place] = process
        self._processes.add(process.pid)

    def _watch(self) -> None:
        while not self._is_stopping.wait(WATCH_SECONDS):
            for place, process in list(self._running.items()):
                if process.poll() is not None and not self._is_stopping.is_set():
                    assert self._processes is not None
                    self._processes.remove(process.pid)
                    self._start(place)


def queue_of(pool: str, node_type: str) -> str:
    """The logical id of a work queue in the template: WorkGpuHdFixQueue for gpu and hd_fix."""
    return f"Work{pool.capitalize()}{node_type.title().replace('_', '')}Queue"


def _environment(facts: Mapping[str, Any]) -> dict[str, str]:
    """What ECS would give a task: where AWS is and who it is there. Nothing of the caller's shell."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT / "layers/core"),  # what the image copies of the layer
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_ENDPOINT_URL": facts["awsUrl"],
        "AWS_ENDPOINT_URL_LAMBDA": facts["lambdaUrl"],
        "OMP_NUM_THREADS": "1",  # several workers share a few cores
        "OPENBLAS_NUM_THREADS": "1",
    }


def _physical_ids(aws_url: str) -> dict[str, str]:
    pages = client("cloudformation", aws_url).get_paginator("list_stack_resources").paginate(StackName=STACK_NAME)
    return {
        resource["LogicalResourceId"]: resource["PhysicalResourceId"]
        for page in pages
        for resource in page["StackResourceSummaries"]
    }
