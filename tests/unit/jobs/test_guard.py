"""The guard in simulated time: overload, recovery, readings that jump, circuits of targets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artiway.jobs.guard.model import (
    NO_TENANT,
    CircuitKey,
    CircuitRules,
    CircuitState,
    GuardReading,
    GuardRules,
    GuardState,
    Outcomes,
    circuit_step,
    step,
)

START = datetime(2026, 3, 2, tzinfo=UTC)
RULES = GuardRules()
CALM, BETWEEN, LATE, FULL = (
    GuardReading(0.1, 10),
    GuardReading(1.5, 150_000),
    GuardReading(2.5, 10),
    GuardReading(0.1, 300_000),
)
EVERY_S = 20


def play(*scenes: tuple[GuardReading, int], state: GuardState | None = None) -> list[tuple[int, int]]:
    """Readings every 20 s, each for so many seconds. Returns (second, lanes paused) of every change."""
    state, second, changes = state or GuardState(), 0, []
    for reading, seconds in scenes:
        for _ in range(seconds // EVERY_S):
            following = step(state, reading, START + timedelta(seconds=second), RULES)
            if following.shed != state.shed:
                changes.append((second, following.shed))
            state, second = following, second + EVERY_S
    return changes


class TestOverload:
    def test_late_runs_pause_low_then_normal(self):
        assert play((LATE, 1_200)) == [(300, 1), (620, 2)]

    def test_backlog_pauses_after_ten_minutes(self):
        assert play((FULL, 1_400)) == [(600, 1), (1_220, 2)]

    def test_lanes_are_paused_in_order(self):
        assert [GuardState(shed).lanes for shed in (0, 1, 2)] == [(), ("run_low",), ("run_low", "run_normal")]

    def test_no_third_lane_is_paused(self):
        assert play((LATE, 7_200))[-1][1] == 2

    def test_short_overload_changes_nothing(self):
        assert play((LATE, 280), (CALM, 600)) == []

    def test_break_starts_the_time_anew(self):
        assert play((LATE, 280), (CALM, 20), (LATE, 280), (BETWEEN, 20), (LATE, 280)) == []


class TestRecovery:
    def test_lanes_resume_one_after_the_other(self):
        assert play((LATE, 660), (CALM, 600))[2:] == [(780, 1), (920, 0)]

    def test_between_the_limits_nothing_resumes(self):
        assert play((LATE, 320), (BETWEEN, 7_200)) == [(300, 1)]

    def test_overload_after_recovery_needs_its_time(self):
        changes = play((LATE, 320), (CALM, 160), (LATE, 400))
        assert changes == [(300, 1), (440, 0), (780, 1)]


class TestFlapping:
    @pytest.mark.parametrize("other", [CALM, BETWEEN])
    def test_input_that_jumps_leaves_state_alone(self, other):
        assert play(*[(LATE, 20), (other, 20)] * 200) == []

    def test_degraded_state_survives_jumping_input(self):
        assert play((LATE, 320), *[(CALM, 100), (LATE, 40)] * 50) == [(300, 1)]

    @given(st.lists(st.sampled_from([CALM, BETWEEN, LATE, FULL]), min_size=1, max_size=400))
    def test_changes_keep_their_distance(self, readings):
        changes = play(*[(reading, EVERY_S) for reading in readings])
        times = [0, *(second for second, _ in changes)]
        levels = [0, *(shed for _, shed in changes)]
        for place, (second, shed) in enumerate(changes):
            least = RULES.latency_for_s if shed > levels[place] else RULES.calm_for_s
            assert second - times[place] >= least
            assert abs(shed - levels[place]) == 1


KEY = CircuitKey(UUID(int=5), "shop.example")
TYPE = CircuitKey(NO_TENANT, "TASK")
CIRCUIT = CircuitRules()


class TestCircuits:
    def move(self, circuit, found, second, key=KEY):
        return circuit_step(circuit, key, found, START + timedelta(seconds=second), CIRCUIT)

    def test_failures_open_it(self):
        circuit = self.move(None, Outcomes(100, 4), 0)
        assert (circuit.state, circuit.until) == (CircuitState.OPEN, START + timedelta(seconds=60))

    @pytest.mark.parametrize("found", [Outcomes(100, 3), Outcomes(19, 19), Outcomes(0, 0)])
    def test_few_failures_or_runs_do_not(self, found):
        assert self.move(None, found, 0) is None

    def test_probes_close_it(self):
        circuit = self.move(None, Outcomes(100, 50), 0)
        assert self.move(circuit, Outcomes(), 59) is circuit
        half_open = self.move(circuit, Outcomes(), 60)
        assert (half_open.state, half_open.probes) == (CircuitState.HALF_OPEN, 3)
        assert self.move(half_open, Outcomes(2, 0), 80) is half_open
        closed = self.move(half_open, Outcomes(3, 0), 100)
        assert closed.state is CircuitState.CLOSED
        assert self.move(closed, Outcomes(3, 0), 399) is closed
        assert self.move(closed, Outcomes(3, 0), 400) is None

    def test_failed_probe_doubles_the_time(self):
        circuit, waits = self.move(None, Outcomes(100, 50), 0), []
        for _ in range(6):
            waits.append((circuit.until - circuit.changed_at).total_seconds())
            second = (circuit.until - START).total_seconds()
            circuit = self.move(self.move(circuit, Outcomes(), second), Outcomes(1, 1), second + 20)
        assert waits == [60, 120, 240, 480, 600, 600]

    def test_quiet_target_closes(self):
        half_open = self.move(self.move(None, Outcomes(100, 50), 0), Outcomes(), 60)
        assert self.move(half_open, Outcomes(), 360).state is CircuitState.CLOSED

    @pytest.mark.parametrize(
        ("found", "is_open"),
        [(Outcomes(100, 4, 5), True), (Outcomes(99, 99, 5), False), (Outcomes(500, 400, 4), False)],
    )
    def test_task_type_needs_runs_and_tenants(self, found, is_open):
        assert (self.move(None, found, 0, TYPE) is not None) == is_open
