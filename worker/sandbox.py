"""The parent's side of a slot's child process: start it, run jobs in it, stop or kill it, replace it after a crash."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from typing import Any

from worker import child, frames
from worker.attempt import Attempt
from worker.engines.base import EngineInfo
from worker.errors import AttemptFailed, EngineCrashed, TimeLimit
from worker.logs import Logger

logger = Logger("sandbox")
SPAWN = multiprocessing.get_context("spawn")  # a fork of a threaded process may inherit a locked lock
START_S = 60.0
KILL_WAIT_S = 5.0
GUARD_S = 1.0


@dataclass(frozen=True)
class Job:
    node_type: str
    engine: str
    params: Mapping[str, Any]
    inputs: Mapping[str, bytes]
    model: str | None = None
    model_file: str | None = None
    model_spec: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class EngineResult:
    data: bytes
    name: str
    content_type: str
    width: int
    height: int
    engine: EngineInfo


class Sandbox:
    """One child process, started on first use and kept warm."""

    def __init__(
        self, config: Mapping[str, Any], *, stop_grace_s: float, target: Callable[..., None] = child.serve
    ) -> None:
        self._config, self._stop_grace_s, self._target = config, stop_grace_s, target
        self._process: Any = None
        self._pipe: Connection | None = None
        self._stop = SPAWN.Event()

    def start(self, wake: Connection | None = None) -> None:
        """Start the child and wait until it is ready. A message on `wake` ends the wait, and the child."""
        if self._process is not None and self._process.is_alive():
            return
        self.kill()
        pipe, child_pipe = SPAWN.Pipe()
        self._stop = SPAWN.Event()
        self._process = SPAWN.Process(
            target=self._target, args=(child_pipe, self._stop, dict(self._config)), daemon=True
        )
        self._process.start()
        child_pipe.close()
        self._pipe = pipe
        try:
            ready = mp_connection.wait([pipe] if wake is None else [pipe, wake], START_S)
            if pipe in ready:
                frames.receive(pipe)
                return
        except (EOFError, OSError) as error:
            self.kill()
            raise EngineCrashed("the engine process ended while it started") from error
        self.kill()
        if not ready:
            raise EngineCrashed("the engine process did not start")

    def run(self, job: Job, attempt: Attempt, report: Callable[[float], None], *, time_limit_s: float) -> EngineResult:
        wake, waker = SPAWN.Pipe(duplex=False)
        attempt.on_stop(lambda: _wake(waker))
        guard: threading.Timer | None = None
        try:
            self.start(wake)  # outside the time limit: a new child is no fault of the node
            attempt.check()
            self._stop.clear()
            # A child that stops inside a message would block its reader, which then sees no time limit.
            guard = threading.Timer(time_limit_s + self._stop_grace_s + GUARD_S, self._process.kill)
            guard.daemon = True
            guard.start()
            return self._wait_for_result(job, attempt, report, wake, time.monotonic() + time_limit_s, time_limit_s)
        except (EOFError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            code = None if self._process is None else self._process.exitcode
            self.kill()
            raise EngineCrashed(f"the engine process ended (exit code {code})") from error
        finally:
            if guard is not None:
                guard.cancel()
            waker.close()
            wake.close()

    def _wait_for_result(
        self,
        job: Job,
        attempt: Attempt,
        report: Callable[[float], None],
        wake: Connection,
        deadline: float,
        time_limit_s: float,
    ) -> EngineResult:
        pipe = self._pipe
        assert pipe is not None
        header = {
            "type": job.node_type,
            "engine": job.engine,
            "params": dict(job.params),
            "inputs": list(job.inputs),
            "model": job.model,
            "modelFile": job.model_file,
            "modelSpec": job.model_spec,
        }
        frames.send(pipe, header, list(job.inputs.values()))
        while True:
            ready = mp_connection.wait([pipe, wake, self._process.sentinel], max(0.0, deadline - time.monotonic()))
            if attempt.reason is not None:
                self._end_job(pipe)
                attempt.check()
            if not ready:
                self._end_job(pipe)
                raise TimeLimit(f"the node ran longer than {time_limit_s:g} s")
            if pipe in ready:
                answer, blobs = frames.receive(pipe)
                if answer["kind"] == "progress":
                    report(float(answer["percent"]))
                else:
                    return read_result(answer, blobs)
            elif self._process.sentinel in ready:
                raise EOFError

    def _end_job(self, pipe: Connection) -> None:
        """Request a stop, then kill the child after the grace period. A child that stops keeps its warm models."""
        self._stop.set()
        deadline = time.monotonic() + self._stop_grace_s
        try:
            while pipe.poll(max(0.0, deadline - time.monotonic())):
                if frames.receive(pipe)[0].get("kind") != "progress":
                    self._stop.clear()
                    return
        except (EOFError, OSError, ValueError, TypeError, AttributeError):
            pass
        self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join(KILL_WAIT_S)
            self._process.close()
        if self._pipe is not None:
            self._pipe.close()
        self._process, self._pipe = None, None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid


def _wake(waker: Connection) -> None:
    try:
        waker.send_bytes(b"!")
    except (OSError, ValueError):
        return  # the job has already ended


def read_result(answer: Mapping[str, Any], blobs: list[bytes]) -> EngineResult:
    if answer["kind"] != "done":
        if "trace" in answer:
            logger.error("engine failed", trace=answer["trace"])
        raise AttemptFailed(answer["message"], code=answer["code"], is_retryable=answer["isRetryable"])
    engine = answer["engine"]
    return EngineResult(
        blobs[0],
        answer["name"],
        answer["contentType"],
        answer["width"],
        answer["height"],
        EngineInfo(engine["name"], engine["version"], is_neural=engine["isNeural"], detail=engine["detail"]),
    )
