"""What operators see of runs: minute aggregates, lanes, and switches that act on the engine."""

from __future__ import annotations

import pytest

from artiway import bootstrap
from artiway.errors import Refused
from artiway.jobs.messages import Outcome
from artiway.jobs.model import RUN_LANES
from artiway.platform import metrics
from artiway.series.model import MINUTE, SERIES, points_of
from artiway.series.repository import PostgresSeries
from artiway.series.service import SeriesService
from artiway.settings.model import Defaults
from tests.fakes.clock import NOON, FixedClock


class NoRequests:
    def of_minute(self, _minute):
        return None


@pytest.fixture
def emitted(monkeypatch):
    found = []
    monkeypatch.setattr(metrics, "emit", lambda name, value, *_, **rest: found.append((name, value, rest)))
    return found


@pytest.fixture
def store(world):
    for table in ("series_minute", "series_day", "series_pass"):
        world.superuser.execute(f"DELETE FROM {table}".encode())
    database = world.service_database
    return PostgresSeries(database, database, pools=["gpu"], beat_s=lambda: 10)


@pytest.fixture
def lanes(world):
    return bootstrap.operations()


def closed(store, world, minute):
    """The points of one minute, by name and labels."""
    world.superuser.execute("DELETE FROM series_pass")
    clock = FixedClock(minute + 2.5 * MINUTE)
    world.superuser.execute("INSERT INTO series_pass (closed_until) VALUES (%s)", [minute])
    SeriesService(store, NoRequests(), dict, Defaults(), clock).close_minutes()
    names = sorted({one.rows for one in SERIES.values()})
    found = store.minute_rows(names, minute)
    return {
        (series.name, *point.labels.values()): point.value
        for series in SERIES.values()
        for point in points_of(series, found.get(series.rows, []))
    }


class TestSeries:
    def test_minute_counts_ends_and_lateness(self, world, store):
        tenant = world.tenant("enterprise")
        bad = world.job(tenant, "*/20 * * * * ?", max_attempts=1)
        world.job(tenant, "*/20 * * * * ?")
        world.answer = lambda call: (Outcome.REFUSED if call.job_id == bad else Outcome.SUCCEEDED, 0.1)
        world.play(65)
        points = closed(store, world, NOON)
        assert points["runs_ended", "SUCCESS"] == points["runs_ended", "FAILED"] == 2
        assert points["runs_ended", "TERMINATED"] == 0
        assert points["run_failures",] == 0.5
        assert points["runs_on_time",] == 1
        assert points["trigger_latency_p95",] < 1

    def test_late_runs_miss_the_objective(self, world, store):
        world.job(world.tenant("enterprise"), "*/20 * * * * ?")
        world.play(25)
        world.superuser.execute("UPDATE job_run SET assigned_at = assigned_at - interval '5 s'")
        points = closed(store, world, NOON)
        assert points["runs_on_time",] == 0
        assert 4.8 < points["trigger_latency_p95",] < 5.6

    def test_deferred_run_is_not_late(self, world, store):
        """Its tenant's quota kept it waiting; the dispatcher was on time."""
        world.job(world.tenant("enterprise"), "*/20 * * * * ?", concurrency_limit=1)
        world.answer = lambda _: (Outcome.SUCCEEDED, 15)
        world.play(25)
        world.superuser.execute(
            "UPDATE job_run SET deferred_at = assigned_at, started_at = assigned_at + interval '30 s' WHERE attempt = 1"
        )
        assert closed(store, world, NOON)["runs_on_time",] == 1

    def test_backlog_and_percentile_feed_the_alarms(self, world, store, emitted):
        world.superuser.execute("INSERT INTO lane_setting (lane, is_paused) VALUES ('run_normal', true)")
        try:
            tenant = world.tenant("enterprise")
            world.job(tenant, "*/5 * * * * ?")
            world.job(tenant, "*/20 * * * * ?", priority="HIGH")
            world.play(25)
            points = closed(store, world, NOON)
            assert points["run_backlog", "run_normal"] >= 4
            assert points["run_backlog", "run_low"] == 0
            values = {name: value for name, value, _ in emitted}
            assert values["RunBacklog"] >= 4
            assert values["TriggerLatencyP95Seconds"] < 1
        finally:
            world.superuser.execute("DELETE FROM lane_setting")


class TestLanes:
    def states(self, lanes):
        return {lane.lane: lane for lane in lanes.lanes() if lane.pool == "runs"}

    def test_lanes_of_runs_show_load(self, world, lanes):
        tenant = world.tenant("enterprise")
        world.job(tenant, "*/10 * * * * ?", concurrency_limit=1, priority="HIGH")
        world.answer = lambda _: (Outcome.SUCCEEDED, 600)
        world.play(35)
        states = self.states(lanes)
        assert states.keys() == set(RUN_LANES)
        assert (states["run_high"].running, states["run_high"].depth) == (1, 2)
        assert (states["run_low"].running, states["run_low"].depth) == (0, 0)

    def test_paused_lane_keeps_its_runs(self, world, lanes):
        try:
            assert lanes.change_lane("run_normal", {"is_paused": True}, actor_id=None).is_paused
            job = world.job(world.tenant("enterprise"), "*/10 * * * * ?")
            world.play(35)
            assert {run["state"] for run in world.runs(job)} == {"PENDING"}
            assert world.calls == []
            assert self.states(lanes)["run_normal"].depth == 3
            assert not lanes.change_lane("run_normal", {"is_paused": False}, actor_id=None).is_paused
            world.play(8)
            assert len(world.calls) >= 3
        finally:
            world.superuser.execute("DELETE FROM lane_setting")

    def test_parallelism_bounds_a_lane(self, world, lanes):
        try:
            lanes.change_lane("run_normal", {"parallelism": 2}, actor_id=None)
            tenant = world.tenant("enterprise")
            world.answer = lambda _: (Outcome.SUCCEEDED, 600)
            for _ in range(4):
                world.job(tenant, "*/10 * * * * ?")
            world.play(25)
            state = self.states(lanes)["run_normal"]
            assert (state.running, state.parallelism) == (2, 2)
            assert state.depth == 6
        finally:
            world.superuser.execute("DELETE FROM lane_setting")

    def test_lane_of_runs_has_no_share(self, lanes):
        with pytest.raises(Refused):
            lanes.change_lane("run_low", {"share_percent": 20}, actor_id=None)
