"""The child process: time limits, stops, crashes, damaged pictures and its environment."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from tests.worker import children, samples
from tests.worker.fakes import node
from worker import frames
from worker.attempt import Attempt, Stop, Stopped
from worker.errors import AttemptFailed, EngineCrashed, TimeLimit
from worker.pictures import Limits, Picture, decode, encode
from worker.sandbox import SPAWN, Job, Sandbox

ROOT = Path(__file__).resolve().parents[2]
CONFIG = {"memoryMb": 3072, "modelMemoryMb": 512, "limits": asdict(Limits())}


def attempt() -> Attempt:
    return Attempt(node(), claimed_at=0)


def job(step: str = "convert", node_type: str = "compose", data: bytes | None = None, engine: str = "preview") -> Job:
    return Job(node_type, engine, {"step": step, "width": 32}, {"product": samples.png() if data is None else data})


@pytest.fixture(scope="module")
def real() -> Iterator[Sandbox]:
    box = Sandbox(CONFIG, stop_grace_s=5)
    yield box
    box.kill()


@pytest.fixture
def box_of() -> Iterator[Callable[[Callable[..., None]], Sandbox]]:
    boxes: list[Sandbox] = []

    def make(target: Callable[..., None], grace_s: float = 0.05) -> Sandbox:
        boxes.append(Sandbox(CONFIG, stop_grace_s=grace_s, target=target))
        return boxes[-1]

    yield make
    for box in boxes:
        box.kill()


def test_child_makes_a_picture_with_rising_progress(real):
    seen: list[float] = []
    made = real.run(job(), attempt(), seen.append, time_limit_s=60)
    assert (made.width, made.height, made.content_type) == (32, 24, "image/png")
    assert decode(made.data, Limits()).width == 32
    assert seen == sorted(seen)
    assert seen[-1] == 98
    assert made.engine.is_neural is False


def test_child_stays_warm_between_jobs_and_refusals(real):
    real.run(job(), attempt(), lambda _: None, time_limit_s=60)
    first = real.pid
    with pytest.raises(AttemptFailed) as refused:
        real.run(job(data=samples.png()[:100]), attempt(), lambda _: None, time_limit_s=60)
    assert (refused.value.code, refused.value.is_retryable) == ("INPUT_UNDECODABLE", False)
    real.run(job(), attempt(), lambda _: None, time_limit_s=60)
    assert real.pid == first


def test_out_of_memory_fails_only_its_attempt():
    box = Sandbox({**CONFIG, "memoryMb": 1200, "limits": asdict(Limits(max_pixels=400_000_000))}, stop_grace_s=1)
    try:
        noise = Picture(np.zeros((7_000, 7_000, 3), np.uint8))
        big = Job("hd_fix", "preview", {"step": "hd_fix"}, {"product": encode(noise, "png", 90)})
        with pytest.raises(AttemptFailed) as failed:
            box.run(big, attempt(), lambda _: None, time_limit_s=60)
        assert failed.value.is_retryable
        assert box.run(job(), attempt(), lambda _: None, time_limit_s=60).width == 32
    finally:
        box.kill()


def test_node_beyond_its_time_limit_is_killed(box_of):
    box = box_of(children.hangs)
    box.start()
    with pytest.raises(TimeLimit):
        box.run(job(), attempt(), lambda _: None, time_limit_s=0.2)
    assert box.pid is None


@pytest.mark.parametrize("reason", [Stop.CANCELLED, Stop.FENCED, Stop.DRAINED])
def test_stop_kills_an_engine_that_ignores_it(box_of, reason):
    box, own_attempt = box_of(children.hangs), attempt()
    with pytest.raises(Stopped) as stopped:
        box.run(job(), own_attempt, lambda _: own_attempt.stop(reason) and None, time_limit_s=60)
    assert stopped.value.reason is reason
    assert box.pid is None


def test_engine_that_stops_itself_keeps_its_process(box_of):
    box, own_attempt = box_of(children.stops_on_request, 20), attempt()
    with pytest.raises(Stopped):
        box.run(job(), own_attempt, lambda _: own_attempt.stop(Stop.CANCELLED) and None, time_limit_s=60)
    first, again = box.pid, attempt()
    assert first is not None
    with pytest.raises(Stopped):
        box.run(job(), again, lambda _: again.stop(Stop.CANCELLED) and None, time_limit_s=60)
    assert box.pid == first


def test_stop_from_another_thread_wakes_the_slot(box_of):
    box, own_attempt, begun = box_of(children.hangs), attempt(), threading.Event()
    stopper = threading.Thread(target=lambda: begun.wait(30) and own_attempt.stop(Stop.CANCELLED))
    stopper.start()
    with pytest.raises(Stopped):
        box.run(job(), own_attempt, lambda _: begun.set(), time_limit_s=60)
    stopper.join()


def test_stop_ends_the_start_of_a_child(box_of):
    box, own_attempt = box_of(children.never_ready), attempt()
    threading.Timer(0.2, own_attempt.stop, (Stop.CANCELLED,)).start()
    with pytest.raises(Stopped):
        box.run(job(), own_attempt, lambda _: None, time_limit_s=60)
    assert box.pid is None


@pytest.mark.parametrize(
    "target",
    [children.crashes, children.sends_invalid_frame, children.sends_no_picture],
)
def test_dead_child_or_invalid_frame_is_a_crash(box_of, target):
    box = box_of(target)
    with pytest.raises(EngineCrashed):
        box.run(job(), attempt(), lambda _: None, time_limit_s=60)
    assert box.pid is None


def test_message_with_too_many_blobs_is_refused():
    """A child could fill its parent's memory with them."""
    reader, writer = SPAWN.Pipe(duplex=False)
    writer.send_bytes(b'{"kind": "progress", "blobs": 2}')
    with pytest.raises(ValueError, match="2 blobs"):
        frames.receive(reader)
    reader.close()
    writer.close()


def test_child_that_stops_inside_a_message_is_killed(box_of):
    box = box_of(children.stops_inside_a_message)
    with pytest.raises(EngineCrashed):
        box.run(job(), attempt(), lambda _: None, time_limit_s=0.5)
    assert box.pid is None


def test_child_has_no_credentials_and_no_settings(box_of, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    monkeypatch.setenv("ARTIWAY_PROGRESS_QUEUE_URL", "q")
    with pytest.raises(AttemptFailed) as reported:
        box_of(children.reports_environment).run(job(), attempt(), lambda _: None, time_limit_s=60)
    assert (reported.value.code, reported.value.message) == ("SEEN", "")


def test_busy_child_ends_with_its_killed_worker():
    program = (
        "import sys, time\n"
        "from tests.worker import children\n"
        "from worker.sandbox import Sandbox\n"
        f"box = Sandbox({CONFIG!r}, stop_grace_s=1, target=children.does_not_read)\n"
        "if __name__ == '__main__':\n"
        "    box.start(); print(box.pid, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 20
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(child)


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_missing_engine_package_is_named_in_error(real):
    with pytest.raises(AttemptFailed, match="optional extra") as failed:
        real.run(job("img2img", "model", engine="diffusers"), attempt(), lambda _: None, time_limit_s=60)
    assert (failed.value.code, failed.value.is_retryable) == ("ENGINE_NOT_INSTALLED", False)
    assert os.getpid() != real.pid
