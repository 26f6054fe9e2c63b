"""Child processes that misbehave. Each function is the target of a spawned process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

from worker import child, frames


def _job(pipe: Connection) -> dict[str, Any]:
    frames.send(pipe, {"kind": "ready"})
    header, _ = frames.receive(pipe)
    frames.send(pipe, {"kind": "progress", "percent": 10})
    return header


def hangs(pipe: Connection, stop: Event, config: Mapping[str, Any]) -> None:
    _job(pipe)
    while True:  # ignores every stop request
        time.sleep(60)


def never_ready(pipe: Connection, stop: Event, config: Mapping[str, Any]) -> None:
    """As a child whose libraries take very long to load."""
    time.sleep(3_600)


def does_not_read(pipe: Connection, stop: Event, config: Mapping[str, Any]) -> None:
    """Does not read its pipe: only the watching thread sees that the parent has ended."""
    child.harden(0)
    frames.send(pipe, {"kind": "ready"})
    while True:
        time.sleep(60)


def crashes(pipe: Connection, stop: Event, config: Mapping[str, Any]) -> None:
    _job(pipe)
    os.kill(os.getpid(), signal.SIGSEGV)


def sends_invalid_frame(pipe: Connection, stop: Event, config: Mapping[str, Any]) -> None:
    _job(pipe)
    pipe.send_bytes(b"\x80\x04not json")


def stops_inside_a_message(pipe: Connection, stop: Event, config: Mapping[str, Any]) -> None:
    """Announces more bytes than it sends."""
    _job(pipe)
    os.write(pipe.fileno(), (1_000).to_bytes(4, "big") + b"{")
    time.sleep(3_600)


def sends_no_picture(pipe: Connection, stop: Event, config: Mapping[str, Any]) -> None:
    _job(pipe)
    frames.send(pipe, {"kind": "done", "engine": {"name": "preview", "version": "1", "isNeural": False, "detail": ""}})
    time.sleep(3_600)


def stops_on_request(pipe: Connection, stop: Event, config: Mapping[str, Any]) -> None:
    """Stops on request and takes the next job in the same process."""
    frames.send(pipe, {"kind": "ready"})
    while True:
        frames.receive(pipe)
        frames.send(pipe, {"kind": "progress", "percent": 10})
        stop.wait(60)
        frames.send(pipe, {"kind": "stopped"})


def reports_environment(pipe: Connection, stop: Event, config: Mapping[str, Any]) -> None:
    child.harden(0)
    _job(pipe)
    seen = ",".join(sorted(name for name in os.environ if name.startswith(("AWS_", "ARTIWAY_", "ECS_"))))
    frames.send(pipe, {"kind": "failed", "code": "SEEN", "message": seen, "isRetryable": False})
