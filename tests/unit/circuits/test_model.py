"""The circuit of a step: any sequence of ends and times keeps its rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artiway.circuits import settings
from artiway.circuits.model import ENGINE_FAULTS, PROBES_AT_ONCE, Circuit, CircuitState, Rules
from artiway.settings.model import Defaults, Fixed
from artiway.tasks import lifecycle
from worker import errors

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RULES = Rules(failures=3, probe_s=10, probe_max_s=60, wait_s=100, refuse_after_s=50)
# Failures that say nothing about an engine.
NEUTRAL = {
    "INPUT_MISSING",
    "INPUT_FOREIGN",
    "INPUT_TOO_LARGE",
    "INPUT_TOO_MANY_PIXELS",
    "INPUT_TYPE_UNKNOWN",
    "INPUT_UNDECODABLE",
    "INPUT_ANIMATED",
    "INPUT_EMPTY_SUBJECT",
    "STEP_BAD_PARAMS",
    "STORE_UNAVAILABLE",
    "CANCELLED",
    "WORKER_LOST",
    "NOT_CLAIMED",
    "HANDED_BACK",
    "STEP_UNAVAILABLE",
    "DEPENDENCY_FAILED",
    "FLOW_STOPPED",
    "CALL_NO_RESULT",
}


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def failed(circuit: Circuit, seconds: float, *, dispatched: float | None = None) -> Circuit:
    sent = at(seconds if dispatched is None else dispatched)
    return circuit.failed(dispatched_at=sent, now=at(seconds), rules=RULES, error="ENGINE_FAILED")


def opened(seconds: float = 0) -> Circuit:
    circuit = Circuit("gpu", "scene")
    for _ in range(RULES.failures):
        circuit = failed(circuit, seconds)
    return circuit


class TestOpening:
    def test_it_opens_after_the_stated_failures(self) -> None:
        circuit = failed(failed(Circuit("gpu", "scene"), 0), 1)
        assert (circuit.state(at(1)), circuit.limit(at(1))) == (CircuitState.CLOSED, None)
        circuit = failed(circuit, 2)
        assert (circuit.state(at(2)), circuit.limit(at(2))) == (CircuitState.OPEN, 0)
        assert (circuit.opened_at, circuit.probe_at) == (at(2), at(12))

    def test_a_success_starts_the_count_again(self) -> None:
        circuit = failed(failed(Circuit("gpu", "scene"), 0), 1).succeeded(dispatched_at=at(0))
        assert circuit == Circuit("gpu", "scene")

    def test_attempts_from_before_do_not_count(self) -> None:
        circuit = opened()
        assert failed(circuit, 5, dispatched=-1) == circuit
        assert failed(circuit, 15, dispatched=-1) == circuit
        assert circuit.succeeded(dispatched_at=at(-1)) == circuit


class TestProbing:
    def test_probes_wait_twice_as_long_each_time(self) -> None:
        circuit, delays, now = opened(), [], 0.0
        for _ in range(6):
            assert circuit.probe_at is not None
            delays.append((circuit.probe_at - at(now)).total_seconds())
            now = (circuit.probe_at - NOON).total_seconds()
            assert circuit.state(at(now)) is CircuitState.HALF_OPEN
            assert circuit.limit(at(now)) == PROBES_AT_ONCE
            circuit = failed(circuit, now)
        assert delays == [10, 20, 40, 60, 60, 60]

    def test_a_probe_that_succeeds_closes(self) -> None:
        assert opened().succeeded(dispatched_at=at(10)) == Circuit("gpu", "scene")


class TestWaiting:
    def test_nodes_keep_retries_for_the_waiting_time(self) -> None:
        circuit = opened()
        assert circuit.is_sparing(at(99), RULES)
        assert not circuit.is_sparing(at(100), RULES)
        assert not Circuit("gpu", "scene", failures=2).is_sparing(at(0), RULES)

    def test_long_stop_refuses_until_a_probe_is_due(self) -> None:
        circuit = opened()
        for _ in range(3):
            assert circuit.probe_at is not None
            circuit = failed(circuit, (circuit.probe_at - NOON).total_seconds())
        assert circuit.probe_at == at(130)
        assert [circuit.refuses_for_s(at(s), RULES) for s in (49, 50, 129.5, 130)] == [None, 80, 1, None]

    def test_closed_circuit_refuses_nothing(self) -> None:
        assert Circuit("gpu", "scene", failures=2).refuses_for_s(at(0), RULES) is None


EVENTS = st.lists(
    st.tuples(st.sampled_from(["failure", "success"]), st.integers(0, 90), st.integers(0, 120)), max_size=60
)


@given(EVENTS, st.integers(1, 6), st.integers(1, 30), st.integers(1, 200))
def test_any_sequence_keeps_the_rules(
    events: list[tuple[str, int, int]], failures: int, probe_s: int, probe_max_s: int
) -> None:
    rules = Rules(failures=failures, probe_s=probe_s, probe_max_s=probe_max_s)
    circuit, now, in_a_row = Circuit("gpu", "scene"), 0, 0
    for kind, later, running in events:
        now += later
        sent, before = at(now - running), circuit
        is_open = before.probe_at is not None
        is_probe = is_open and sent >= (before.probe_at or NOON)
        if kind == "failure":
            circuit = before.failed(dispatched_at=sent, now=at(now), rules=rules)
            in_a_row = 0 if is_open else in_a_row + 1
        else:
            circuit = before.succeeded(dispatched_at=sent)
            in_a_row = 0
        if is_open and not is_probe:
            assert circuit == before
        elif kind == "success":
            assert circuit == Circuit("gpu", "scene")
        elif not is_open:
            assert (circuit.opened_at is not None) == (in_a_row >= failures)
        if circuit.probe_at is not None:
            wait_s = (circuit.probe_at - at(now)).total_seconds()
            assert wait_s <= max(probe_s, probe_max_s)
            assert circuit.limit(circuit.probe_at) == PROBES_AT_ONCE
            assert circuit.succeeded(dispatched_at=circuit.probe_at) == Circuit("gpu", "scene")
            if circuit.opened_at == at(now):
                in_a_row = 0


def test_every_failure_code_is_decided_on() -> None:
    reported = {value.code for value in vars(errors).values() if isinstance(value, type) and hasattr(value, "code")}
    ours = {value.code for value in vars(lifecycle).values() if isinstance(value, lifecycle.Failure)}
    assert (reported | ours) - NEUTRAL == ENGINE_FAULTS


@pytest.mark.parametrize("value", [1, 7])
def test_rules_follow_the_live_settings(value: int) -> None:
    assert settings.rules(Defaults()) == Rules()
    assert settings.rules(Fixed({settings.FAILURES: value})) == Rules(failures=value)
