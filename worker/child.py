"""The child process decodes untrusted pictures and runs engines, without credentials and with a memory limit."""

from __future__ import annotations

import os
import resource
import signal
import threading
import traceback
from collections.abc import Mapping
from multiprocessing import connection as mp_connection
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from artiway.tasks.contract import FORMATS
from worker import frames
from worker.engines.base import Engine, EngineInfo
from worker.engines.registry import Engines
from worker.errors import AttemptFailed, EngineBusy, EngineFailed
from worker.pictures import Limits, Picture, decode, encode
from worker.settings import ModelSpec
from worker.steps import MAX_INPUTS, read_params, step_of


class StopRequested(Exception):
    """The parent has stopped this attempt."""


def serve(pipe: Connection, stop: Event, config: Mapping[str, Any]) -> None:
    """Entry point of the child: run one job at a time until the parent closes the pipe or ends."""
    harden(int(config["memoryMb"]))
    engines = Engines(int(config["modelMemoryMb"]), int(config.get("threads", 1)), config)
    limits = Limits(**config["limits"])
    frames.send(pipe, {"kind": "ready"})
    while True:
        try:
            header, blobs = frames.receive(pipe, max_blobs=MAX_INPUTS)
        except (EOFError, OSError):
            return
        answer, outputs = run_job(engines, limits, header, blobs, pipe, stop)
        frames.send(pipe, answer, outputs)


def harden(memory_mb: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the parent drains first, then kills the child
    for name in [name for name in os.environ if name.startswith(("AWS_", "ARTIWAY_", "ECS_"))]:
        del os.environ[name]
    if memory_mb:
        resource.setrlimit(resource.RLIMIT_AS, (memory_mb * 1024 * 1024,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=exit_with_parent, args=(parent.sentinel,), daemon=True).start()


def exit_with_parent(sentinel: int) -> None:
    """Exit when the parent ends: after kill -9 it cannot kill its child."""
    mp_connection.wait([sentinel])
    os._exit(1)


def run_job(
    engines: Engines, limits: Limits, header: Mapping[str, Any], blobs: list[bytes], pipe: Connection, stop: Event
) -> tuple[dict[str, Any], list[bytes]]:
    def report(percent: float) -> None:
        if stop.is_set():
            raise StopRequested
        frames.send(pipe, {"kind": "progress", "percent": round(float(percent), 1)})

    try:
        picture, info, fields = make(engines, limits, header, blobs, report)
    except StopRequested:
        return {"kind": "stopped"}, []
    except AttemptFailed as error:
        return failed(error), []
    except MemoryError:
        return failed(EngineBusy("not enough memory for this picture at the moment")), []
    except Exception as error:  # noqa: BLE001 (an exception of an engine fails its attempt, not the worker)
        detail = "".join(traceback.format_exception(error)[-3:])
        return {**failed(EngineFailed(f"{type(error).__name__}: {error}")), "trace": detail[-4000:]}, []
    engine = {"name": info.name, "version": info.version, "isNeural": info.is_neural, "detail": info.detail}
    return {"kind": "done", "engine": engine, **fields}, [picture]


def make(
    engines: Engines, limits: Limits, header: Mapping[str, Any], blobs: list[bytes], report: Any
) -> tuple[bytes, EngineInfo, dict[str, Any]]:
    step = step_of(header["type"], header["params"])
    params = read_params(step, header["params"])
    inputs: dict[str, Picture] = {}
    for name, blob in zip(header["inputs"], blobs, strict=True):
        inputs[name] = decode(blob, limits)
    report(2)
    engine: Engine = engines.get(header["engine"])
    model, file = header.get("model"), header.get("modelFile")
    if model and file:
        engines.register(model, ModelSpec.model_validate(header["modelSpec"]), Path(file))
    engine.load(step, model)
    picture, info = engine.run(step, model, inputs, params, report)
    data = encode(picture, params.format, params.quality)
    report(98)
    fields = {
        "name": step.output,
        "contentType": FORMATS[params.format][0],
        "width": picture.width,
        "height": picture.height,
    }
    return data, info, fields


def failed(error: AttemptFailed) -> dict[str, Any]:
    return {"kind": "failed", "code": error.code, "message": error.message[:500], "isRetryable": error.is_retryable}
