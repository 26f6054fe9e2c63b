"""CPU workers of the local stack, one per node type. A worker that ends is started again, as ECS does."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
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
from local.weights import FOLDER, OFF

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".tools/worker/bin/python"
WATCH_SECONDS = 1.0
DRAIN_SECONDS = 25
ALLOWED_TARGETS = "ARTIWAY_ALLOWED_TARGETS"
# Of the operator's own image servers (docs/worker.md).
ENGINE_VARIABLES = (
    "ARTIWAY_COMFYUI_CHECKPOINT",
    "ARTIWAY_COMFYUI_WORKFLOWS",
    "ARTIWAY_COMFYUI_URL",
    "ARTIWAY_IMAGES_API_URL",
    "ARTIWAY_IMAGES_API_KEY",
    "ARTIWAY_IMAGES_API_MODEL",
)


@dataclass(frozen=True)
class Assignment:
    """The pool and node types that one worker process serves."""

    pool: str
    types: tuple[str, ...]


def _assignments(per_type: int) -> list[Assignment]:
    """`per_type` workers of the shared pool for each type, and one worker of the enterprise pool for all types."""
    shared = [Assignment("gpu", (kind,)) for kind in catalogue.load().types for _ in range(per_type)]
    return [*shared, Assignment("enterprise", tuple(catalogue.load().types))]


class Workers:
    """The workers as a service of the stack."""

    name = "workers"

    def __init__(self, home: Path, *, per_type: int = 1, has_networks: bool | None = None) -> None:
        """`has_networks=False` leaves the networks out, as ARTIWAY_WEIGHTS=off does."""
        self._home, self._per_type = home.resolve(), per_type
        is_off = os.environ.get("ARTIWAY_WEIGHTS", "") == OFF
        self._has_networks = not is_off if has_networks is None else has_networks
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._is_stopping = threading.Event()
        self._processes: Processes | None = None
        self._watcher: threading.Thread | None = None

    def start(self, facts: Mapping[str, Any]) -> Mapping[str, Any]:
        if not PYTHON.exists():
            raise ServerFailed("the worker's environment is not installed: `make run` installs it")
        self._processes = Processes(self._home)
        self._environment = _environment(facts) | engines_of(has_networks=self._has_networks)
        self._physical = physical_ids(facts["awsUrl"])
        self._assignments = _assignments(self._per_type)
        for index in range(len(self._assignments)):
            self._start(index)
        self._watcher = threading.Thread(target=self._watch, name="workers", daemon=True)
        self._watcher.start()
        return {}

    def stop(self) -> None:
        """Let the workers drain, then kill them. After a start that failed it stops the workers that were started."""
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

    def _start(self, index: int) -> None:
        assert self._processes is not None
        assignment = self._assignments[index]
        log = self._home / "logs" / f"worker-{assignment.pool}-{index}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [str(PYTHON), "-m", "worker"],
                cwd=ROOT,
                env={**self._environment, **settings_of(assignment, self._physical)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._running[index] = process
        self._processes.add(process.pid)

    def _watch(self) -> None:
        while not self._is_stopping.wait(WATCH_SECONDS):
            for index, process in list(self._running.items()):
                if process.poll() is not None and not self._is_stopping.is_set():
                    assert self._processes is not None
                    self._processes.remove(process.pid)
                    self._start(index)


def queue_of(pool: str, node_type: str) -> str:
    """The logical id of a work queue in the template: WorkGpuHdFixQueue for gpu and hd_fix."""
    return f"Work{pool.capitalize()}{node_type.title().replace('_', '')}Queue"


def settings_of(assignment: Assignment, physical: Mapping[str, str]) -> dict[str, str]:
    """The worker's settings, as its ECS task has them."""
    urls = {kind: physical[queue_of(assignment.pool, kind)] for kind in assignment.types}
    return {
        "ARTIWAY_INTERNAL_FUNCTION": f"InternalFunction:{assignment.pool}",
        "ARTIWAY_PROGRESS_QUEUE_URL": physical["ProgressQueue"],
        "ARTIWAY_ARTEFACT_BUCKET": physical["DataArtefactBucket"],
        "ARTIWAY_WORK_QUEUE_URLS": json.dumps(urls),
        "ARTIWAY_WORKER_POOL": assignment.pool,
        "ARTIWAY_WORKER_TYPES": ",".join(assignment.types),
    }


def _environment(facts: Mapping[str, Any]) -> dict[str, str]:
    """The variables of an ECS task. It gets one variable of the caller's shell: the operator's list of targets."""
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT / "layers/core"),  # the image copies the modules that the worker shares with the layer
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        # A key of its own, for which the emulator's S3 reads models/* only, as the role on AWS.
        "AWS_ACCESS_KEY_ID": "worker",
        "AWS_SECRET_ACCESS_KEY": "worker",
        "AWS_ENDPOINT_URL": facts["awsUrl"],
        "AWS_ENDPOINT_URL_LAMBDA": facts["lambdaUrl"],
        "OMP_NUM_THREADS": "1",  # several workers share a few cores
        "OPENBLAS_NUM_THREADS": "1",
    }
    if targets := os.environ.get(ALLOWED_TARGETS):
        environment[ALLOWED_TARGETS] = targets
    return environment


def engines_of(*, has_networks: bool) -> dict[str, str]:
    """With networks the workers have their defaults, and look for weights where the stack fetches them."""
    chosen = {
        name: os.environ[name]
        for name in ("ARTIWAY_ENGINES", "ARTIWAY_MODELS", *ENGINE_VARIABLES)
        if name in os.environ
    }
    if not has_networks:
        return {"ARTIWAY_ENGINES": json.dumps(dict.fromkeys(catalogue.load().types, "preview"))} | chosen
    return {"ARTIWAY_MODEL_FOLDER": str(FOLDER)} | chosen


def physical_ids(aws_url: str) -> dict[str, str]:
    pages = client("cloudformation", aws_url).get_paginator("list_stack_resources").paginate(StackName=STACK_NAME)
    return {
        resource["LogicalResourceId"]: resource["PhysicalResourceId"]
        for page in pages
        for resource in page["StackResourceSummaries"]
    }


def main(pool: str, *types: str) -> None:
    """Print the variables of a worker of the running stack, for `docker run --env-file` (docs/worker.md)."""
    facts = json.loads((Path(os.environ.get("ARTIWAY_HOME", ".artiway")) / "stack.json").read_text())
    aws = {name: value for name, value in _environment(facts).items() if name.startswith("AWS_")}
    settings = settings_of(Assignment(pool, types), physical_ids(facts["awsUrl"]))
    print("\n".join(f"{name}={value}" for name, value in (aws | settings).items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
