"""Which provider is asked, when the next one is, and what circuits and minutes learn from it."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from artiway.circuits.model import Circuit, StoppedSteps
from artiway.errors import Unavailable
from artiway.generations.providers.model import (
    Chosen,
    FailureCode,
    Finish,
    FinishReason,
    Limits,
    Message,
    Prompt,
    ProviderFailed,
    Role,
    Target,
    Text,
    Tick,
    Usage,
)
from artiway.generations.providers.router import POOL, ProviderRouter, reserved_tokens
from artiway.generations.providers.routes import Routes

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
FIRST, SECOND = Target("first", "https://first.example.com", "m"), Target("second", "https://second.example.com", "m")
PROMPT = Prompt((Message(Role.USER, "four characters"),), max_tokens=100)
DONE = [Text("A dress"), Finish(FinishReason.STOP, Usage(4, 2))]


def failure(code, **facts):
    return ProviderFailed(code, "no", **facts)


class Script:
    """A provider that plays what a test gives it: items, and errors that it raises."""

    def __init__(self, **by_provider):
        self._by_provider = by_provider
        self.calls = []
        self.limits = []
        self.closed = []

    def stream(self, target, prompt, limits, is_cancelled):
        self.calls.append(target.provider)
        self.limits.append(limits)
        try:
            for item in self._by_provider[target.provider]:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.closed.append(target.provider)


class Circuits:
    def __init__(self, *circuits, is_away=False):
        self._circuits, self._is_away = circuits, is_away
        self.recorded = []

    def stopped(self):
        self._check()
        return StoppedSteps(NOON, self._circuits)

    def record(self, attempts):
        self._check()
        self.recorded += [(one.pool, one.step, one.dispatched_at, one.error) for one in attempts]

    def _check(self):
        if self._is_away:
            raise Unavailable("no database", retry_after_s=1)


class Quota:
    def __init__(self, waits=()):
        self._waits = dict(waits)
        self.taken, self.returned = [], []

    def take(self, target, tokens):
        self.taken.append((target.provider, tokens))
        return self._waits.get(target.provider, 0)

    def give_back(self, target, tokens):
        self.returned.append((target.provider, tokens))


class World:
    def __init__(self, script, *circuits, waits=(), is_away=False, now_s=lambda: 0.0):
        self.script, self.circuits, self.quota = script, Circuits(*circuits, is_away=is_away), Quota(waits)
        routes = Routes((FIRST, SECOND), {("copywriting", True): (FIRST, SECOND)})
        self.router = ProviderRouter(lambda: routes, script, self.circuits, self.quota, now_s=now_s)

    def run(self, *targets, admit=lambda _target: True):
        found = self.router.stream(targets or (FIRST, SECOND), PROMPT, Limits(), lambda: False, admit)
        return list(found)

    def fail(self, *targets, **arguments):
        with pytest.raises(ProviderFailed) as raised:
            self.run(*targets, **arguments)
        return raised.value


def test_first_provider_is_asked_alone():
    world = World(Script(first=DONE, second=DONE))
    assert world.run() == [Chosen(FIRST), *DONE]
    assert world.circuits.recorded == [(POOL, "first", NOON, "")]
    assert world.quota.returned == [("first", reserved_tokens(PROMPT) - 6)]


@pytest.mark.parametrize("code", sorted(set(FailureCode) - {FailureCode.NO_ROUTE, FailureCode.INVALID}))
def test_failure_before_content_falls_over(code):
    world = World(Script(first=[Tick(), failure(code)], second=DONE))
    assert world.run() == [Chosen(FIRST), Tick(), Chosen(SECOND), *DONE]
    assert world.quota.returned[0] == ("first", reserved_tokens(PROMPT))


def test_failure_after_content_does_not_fall_over():
    error = failure(FailureCode.ERROR, is_billable=True)
    world = World(Script(first=[Text("A "), error], second=DONE))
    assert world.fail() is error
    assert world.script.calls == ["first"]
    assert world.circuits.recorded == [(POOL, "first", NOON, FailureCode.ERROR)]
    assert world.quota.returned == [("first", 0)]


@pytest.mark.parametrize(
    ("code", "is_recorded"),
    [
        (FailureCode.ERROR, True),
        (FailureCode.ANSWER, True),
        (FailureCode.AWAY, True),
        (FailureCode.TIMEOUT, True),
        (FailureCode.KEY, False),
        (FailureCode.REFUSED, False),
        (FailureCode.BUSY, False),
    ],
)
def test_circuit_learns_of_faults_alone(code, is_recorded):
    world = World(Script(first=[failure(code)]))
    assert world.fail(FIRST).code == code
    assert world.circuits.recorded == ([(POOL, "first", NOON, code)] if is_recorded else [])


def test_cancelled_text_does_not_close_circuit():
    world = World(Script(first=[Text("A "), Finish(FinishReason.CANCELLED)]))
    assert world.run(FIRST)[-1] == Finish(FinishReason.CANCELLED)
    assert world.circuits.recorded == []


class TestPassedOver:
    def open(self, *, in_s):
        at = NOON + timedelta(seconds=in_s)
        return Circuit(POOL, "first", failures=5, opened_at=NOON - timedelta(minutes=1), probe_at=at)

    def test_open_circuit_is_not_called(self):
        world = World(Script(second=DONE), self.open(in_s=40))
        assert world.run() == [Chosen(SECOND), *DONE]
        alone = World(Script(), self.open(in_s=40)).fail(FIRST)
        assert (alone.code, alone.is_waiting, alone.retry_after_s) == (FailureCode.AWAY, True, 40)

    def test_due_probe_is_called(self):
        assert World(Script(first=DONE), self.open(in_s=0)).run()[0] == Chosen(FIRST)

    def test_used_up_minute_is_not_called(self):
        world = World(Script(second=DONE), waits={"first": 12})
        assert world.run()[0] == Chosen(SECOND)
        alone = World(Script(), waits={"first": 12}).fail(FIRST)
        assert (alone.code, alone.is_waiting, alone.retry_after_s) == (FailureCode.BUSY, True, 12)

    def test_full_guard_is_not_called(self):
        world = World(Script(second=DONE))
        assert world.run(admit=lambda target: target is SECOND)[0] == Chosen(SECOND)
        assert [provider for provider, _ in world.quota.taken] == ["second"]
        assert World(Script()).fail(admit=lambda _target: False).code == FailureCode.BUSY

    def test_missing_key_is_not_called(self):
        bare = Target("first", "https://first.example.com", "m", is_key_missing=True)
        world = World(Script(second=DONE))
        assert world.run(bare, SECOND)[0] == Chosen(SECOND)
        failed = World(Script()).fail(bare)
        assert (failed.code, failed.is_retryable, failed.message) == (
            FailureCode.KEY,
            False,
            "no key is configured for the provider",
        )

    def test_database_that_is_away_stops_nothing(self):
        world = World(Script(first=[failure(FailureCode.ERROR)], second=DONE), is_away=True)
        assert world.run()[-1] == DONE[-1]


@pytest.mark.parametrize(
    ("first", "second", "raised"),
    [
        (FailureCode.BUSY, FailureCode.KEY, FailureCode.BUSY),
        (FailureCode.KEY, FailureCode.AWAY, FailureCode.AWAY),
        (FailureCode.ERROR, FailureCode.BUSY, FailureCode.BUSY),
        (FailureCode.REFUSED, FailureCode.TIMEOUT, FailureCode.TIMEOUT),
        (FailureCode.KEY, FailureCode.REFUSED, FailureCode.KEY),
    ],
)
def test_text_waits_if_any_provider_may_have_time(first, second, raised):
    assert World(Script(first=[failure(first)], second=[failure(second)])).fail().code == raised


def test_shortest_wait_is_raised():
    busy = [failure(FailureCode.BUSY, retry_after_s=60)], [failure(FailureCode.BUSY, retry_after_s=5)]
    assert World(Script(first=busy[0], second=busy[1])).fail().retry_after_s == 5


def test_all_providers_share_the_total_limit():
    times = iter([0.0, 0.0, 200.0, 200.0])
    world = World(Script(first=[failure(FailureCode.TIMEOUT)], second=DONE), now_s=lambda: next(times))
    world.run()
    assert [limits.total_s for limits in world.script.limits] == [240, 40]


def test_no_provider_is_asked_after_the_total_limit():
    times = iter([0.0, 0.0, 241.0])
    world = World(Script(first=[failure(FailureCode.TIMEOUT)], second=DONE), now_s=lambda: next(times))
    assert world.fail().code == FailureCode.TIMEOUT
    assert world.script.calls == ["first"]


def test_reader_that_leaves_closes_the_call():
    world = World(Script(first=[Text("A "), Text("B ")]))
    with contextlib.closing(world.router.stream([FIRST], PROMPT, Limits(), lambda: False)) as items:
        assert [next(items), next(items)] == [Chosen(FIRST), Text("A ")]
    assert world.script.closed == ["first"]


def test_targets_are_those_of_the_route():
    router = World(Script()).router
    assert router.targets("copywriting", is_paid=True) == (FIRST, SECOND)
    with pytest.raises(ProviderFailed) as raised:
        router.targets("copywriting", is_paid=False)
    assert raised.value.code == FailureCode.NO_ROUTE


def test_pictures_reserve_tokens():
    plain = Prompt((Message(Role.USER, "tags"),), max_tokens=10)
    with_picture = Prompt((Message(Role.USER, "tags", images=("https://x.example.com/1",)),), max_tokens=10)
    assert reserved_tokens(with_picture) - reserved_tokens(plain) == 1_000
