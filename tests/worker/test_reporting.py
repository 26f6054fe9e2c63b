"""What the progress queue hears: at a bounded rate, in order, and the end for certain."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.fakes import INFO, FakeProgress, node
from worker.attempt import Attempt, Stop, Stopped
from worker.errors import WorkFailed
from worker.ports import OutsideFailed
from worker.reporting import Reporter


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def reporter(queue: FakeProgress, clock: Clock, attempt: Attempt | None = None) -> Reporter:
    return Reporter(queue, attempt or Attempt(node(), claimed_at=0), "w1", clock=clock, sleep=clock.sleep, give_up_s=20)


def told(queue: FakeProgress) -> list[int]:
    return [envelope["data"]["progress"] for envelope in queue.sent if envelope["type"] == "progress"]


def test_each_ten_percent_is_told_and_less_is_not():
    queue, clock = FakeProgress(), Clock()
    ours = reporter(queue, clock)
    ours.started()
    for percent in (3, 9, 10, 15, 19, 20, 41):
        clock.now += 0.5
        ours.progress(percent)
    assert told(queue) == [10, 20, 41]


def test_small_steps_are_told_after_two_seconds():
    queue, clock = FakeProgress(), Clock()
    ours = reporter(queue, clock)
    ours.started()
    clock.now += 1.9
    ours.progress(2)
    clock.now += 0.2
    ours.progress(3)
    clock.now += 5
    ours.progress(3)  # nothing new
    assert told(queue) == [3]


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 100)), max_size=200))
def test_messages_never_come_in_bursts_nor_go_backwards(steps):
    queue, clock = FakeProgress(), Clock()
    ours = reporter(queue, clock)
    ours.started()
    times = []
    for pause, percent in steps:
        clock.now += pause
        before = len(queue.sent)
        ours.progress(percent)
        if len(queue.sent) > before:
            times.append(clock.now)
    assert told(queue) == sorted(set(told(queue)))
    assert all(later - earlier >= 0.25 for earlier, later in itertools.pairwise(times))
    assert [envelope["data"]["sequence"] for envelope in queue.sent] == list(range(1, len(queue.sent) + 1))


def test_progress_that_cannot_be_sent_does_not_stop_the_work():
    queue, clock = FakeProgress(), Clock()
    queue.failures = 2
    ours = reporter(queue, clock)
    ours.started()
    clock.now += 1
    ours.progress(50)
    ours.result([], INFO, 1.0)
    assert queue.kinds() == ["result"]


def test_the_end_is_told_until_it_is_heard():
    queue, clock = FakeProgress(), Clock()
    queue.failures = 4
    reporter(queue, clock).failure(WorkFailed("no"), 1.5)
    assert queue.kinds() == ["failure"]
    assert queue.sent[0]["data"]["gpuSeconds"] == 1.5
    assert clock.now > 101


def test_the_end_is_given_up_after_its_time():
    queue, clock = FakeProgress(), Clock()
    queue.failures = 10_000
    with pytest.raises(OutsideFailed):
        reporter(queue, clock).failure(WorkFailed("no"), 1)
    assert 120 <= clock.now <= 130


def test_a_fence_ends_the_trying():
    queue, clock, attempt = FakeProgress(), Clock(), Attempt(node(), claimed_at=0)
    queue.failures = 10_000
    attempt.begin_report()
    ours = Reporter(
        queue, attempt, "w1", clock=clock, sleep=lambda seconds: attempt.stop(Stop.FENCED) and None, give_up_s=20
    )
    with pytest.raises(Stopped):
        ours.result([], INFO, 1)
    assert queue.sent == []


def test_an_attempt_is_stopped_or_reports_but_never_both():
    first, second = Attempt(node(), claimed_at=0), Attempt(node(), claimed_at=0)
    assert first.stop(Stop.DRAINED)
    with pytest.raises(Stopped):
        first.begin_report()
    second.begin_report()
    assert not second.stop(Stop.DRAINED)
    assert not second.stop(Stop.CANCELLED)
    assert second.stop(Stop.FENCED)
