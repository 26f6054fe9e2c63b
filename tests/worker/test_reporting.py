"""Reports to the progress queue: at a bounded rate, in order, and the end with retries."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.fakes import INFO, FakeProgress, node
from worker.attempt import Attempt, Stop, Stopped
from worker.errors import AttemptFailed
from worker.ports import ServiceFailed
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


def percents(queue: FakeProgress) -> list[int]:
    return [envelope["data"]["progress"] for envelope in queue.sent if envelope["type"] == "progress"]


def test_progress_is_reported_in_steps_of_ten():
    queue, clock = FakeProgress(), Clock()
    reports = reporter(queue, clock)
    for percent in (3, 9, 10, 15, 19, 20, 41):
        clock.now += 0.5
        reports.progress(percent)
    assert percents(queue) == [10, 20, 41]


def test_small_steps_are_reported_after_two_seconds():
    queue, clock = FakeProgress(), Clock()
    reports = reporter(queue, clock)
    clock.now += 1.9
    reports.progress(2)
    clock.now += 0.2
    reports.progress(3)
    clock.now += 5
    reports.progress(3)  # no change
    assert percents(queue) == [3]


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 100)), max_size=200))
def test_messages_never_come_in_bursts_nor_go_backwards(steps):
    queue, clock = FakeProgress(), Clock()
    reports = reporter(queue, clock)
    times = []
    for pause, percent in steps:
        clock.now += pause
        before = len(queue.sent)
        reports.progress(percent)
        if len(queue.sent) > before:
            times.append(clock.now)
    assert percents(queue) == sorted(set(percents(queue)))
    assert all(later - earlier >= 0.25 for earlier, later in itertools.pairwise(times))
    assert [envelope["data"]["sequence"] for envelope in queue.sent] == list(range(1, len(queue.sent) + 1))


def test_progress_that_fails_to_send_is_ignored():
    queue, clock = FakeProgress(), Clock()
    queue.failures = 1
    reports = reporter(queue, clock)
    clock.now += 1
    reports.progress(50)
    reports.result([], INFO, 1.0)
    assert queue.kinds() == ["result"]


def test_result_is_reported_until_it_is_accepted():
    queue, clock = FakeProgress(), Clock()
    queue.failures = 4
    reporter(queue, clock).failure(AttemptFailed("no"), 1.5)
    assert queue.kinds() == ["failure"]
    assert queue.sent[0]["data"]["gpuSeconds"] == 1.5
    assert clock.now > 101


def test_report_of_the_end_stops_after_its_time():
    queue, clock = FakeProgress(), Clock()
    queue.failures = 10_000
    with pytest.raises(ServiceFailed):
        reporter(queue, clock).failure(AttemptFailed("no"), 1)
    assert 120 <= clock.now <= 130


def test_fence_ends_the_retries_of_a_report():
    queue, clock, attempt = FakeProgress(), Clock(), Attempt(node(), claimed_at=0)
    queue.failures = 10_000
    attempt.begin_report()
    reports = Reporter(
        queue, attempt, "w1", clock=clock, sleep=lambda seconds: attempt.stop(Stop.FENCED) and None, give_up_s=20
    )
    with pytest.raises(Stopped):
        reports.result([], INFO, 1)
    assert queue.sent == []


def test_attempt_is_either_stopped_or_reports_progress():
    first, second = Attempt(node(), claimed_at=0), Attempt(node(), claimed_at=0)
    assert first.stop(Stop.DRAINED)
    with pytest.raises(Stopped):
        first.begin_report()
    second.begin_report()
    assert not second.stop(Stop.DRAINED)
    assert not second.stop(Stop.CANCELLED)
    assert second.stop(Stop.FENCED)
