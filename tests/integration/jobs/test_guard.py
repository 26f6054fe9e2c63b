"""The guard on the engine: paused lanes, held targets, the answers of the API. The time is the test's."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from artiway import bootstrap
from artiway.ids import to_wire
from artiway.jobs.guard.model import GuardReading, GuardState
from artiway.jobs.messages import Outcome
from tests.fakes.clock import NOON
from tests.integration.payments.environment import http_event, load_function

EVERY_10_S = "*/10 * * * * ?"


def shed(world, count):
    guard = bootstrap.run_guard()
    with guard._store.open() as tx:
        tx.guard(is_locked=True)
        tx.save(GuardState(count, changed_at=world.now), GuardReading(3.0, 5), world.now)


def audited(world):
    rows = world.rows(
        "SELECT action, target, tenant_id FROM audit_log WHERE action LIKE 'run\\_%%' ORDER BY at, audit_id"
    )
    return [(row["action"], row["target"]) for row in rows]


@pytest.fixture
def tenant(world):
    return world.tenant("enterprise")


class TestLanes:
    def test_paused_lane_waits_and_resumes(self, world, tenant):
        low, high = world.job(tenant, EVERY_10_S, priority="LOW"), world.job(tenant, EVERY_10_S, priority="HIGH")
        shed(world, 1)
        world.play(25)
        assert {run["defer_reason"] for run in world.runs(low) if run["scheduled_at"] <= world.now} == {"lane_paused"}
        assert [run["state"] for run in world.runs(high)][:2] == ["SUCCESS", "SUCCESS"]
        shed(world, 0)
        world.play(10)
        assert [run["state"] for run in world.runs(low)][:2] == ["SUCCESS", "SUCCESS"]

    def test_overload_is_seen_and_overcome(self, world, tenant):
        """Nothing dispatches for seven minutes; then all is well again."""
        job = world.job(tenant, "0 * * * * ?", priority="NORMAL")
        world.advance(130)
        for _ in range(25):
            world.trigger.run_pass()
            bootstrap.run_guard().check()
            world.advance(20)
        assert bootstrap.run_guard().health().state.lanes == ("run_low",)
        for _ in range(14):
            world.play(20, step=1)
            bootstrap.run_guard().check()
        assert bootstrap.run_guard().health().state.lanes == ()
        assert audited(world) == [("run_guard.pause", "run_low"), ("run_guard.resume", "run_low")]
        assert {run["state"] for run in world.runs(job) if run["due_at"] < world.now - timedelta(seconds=20)} == {
            "SUCCESS"
        }

    def test_new_low_work_is_refused(self, world, make_ask, tenant):
        ask = make_ask(tenant)
        low, high = world.job(tenant, EVERY_10_S, priority="LOW"), world.job(tenant, EVERY_10_S, priority="HIGH")
        shed(world, 1)
        status, answer = ask("POST", f"/jobs/{to_wire('job', low)}/trigger")
        assert (status, answer["code"]) == (503, "SCHED_503_DISPATCH_BACKLOG")
        assert ask("POST", f"/jobs/{to_wire('job', high)}/trigger")[0] == 202
        wanted = {"from": "2026-02-23T00:00:00Z", "to": "2026-02-23T06:00:00Z"}
        assert ask("POST", f"/jobs/{to_wire('job', high)}/backfill", wanted)[0] == 503

    def test_health_shows_lanes_and_readings(self, world, tenant):
        shed(world, 2)
        module = load_function("ops")
        identity = json.dumps({"tenantId": str(tenant[0]), "userId": str(tenant[1]), "permissions": "ops.read"})
        event = http_event("GET", "/api/v1/ops/health", {"x-identity": identity}, b"", set(module.api.rules))
        answer = module.handler(event, None)
        body = json.loads(answer["body"])
        assert (answer["statusCode"], body["state"]) == (200, "DEGRADED")
        assert body["runs"]["pausedLanes"] == ["run_low", "run_normal"]
        assert (body["runs"]["latencyP95Seconds"], body["runs"]["backlog"]) == (3.0, 5)


class TestCircuits:
    def test_failing_target_is_left_alone(self, world, tenant):
        """Two hosts of a tenant, one fails: 12 jobs each, every 10 s."""
        bad = [
            world.job(tenant, EVERY_10_S, max_attempts=1, task={"url": "https://bad.example/hook"}) for _ in range(12)
        ]
        good = [world.job(tenant, EVERY_10_S, max_attempts=1) for _ in range(12)]
        world.answer = lambda call: (Outcome.REFUSED if "bad" in call.url else Outcome.SUCCEEDED, 0.1)
        world.play(21)
        bootstrap.run_guard().check()
        (circuit,) = bootstrap.run_guard().health().circuits
        assert (circuit.key, circuit.state) == ((tenant[0], "bad.example"), "OPEN")
        called = len(world.calls)
        world.play(40)
        assert {run["state"] for job in good for run in world.runs(job) if run["scheduled_at"] < world.now} == {
            "SUCCESS"
        }
        assert len(world.calls) - called == 48
        held = [run for job in bad for run in world.runs(job) if run["defer_reason"] == "circuit_open"]
        assert len(held) == 48
        world.answer = lambda _: (Outcome.SUCCEEDED, 0.1)
        for _ in range(10):
            world.play(20)
            bootstrap.run_guard().check()
        assert bootstrap.run_guard().health().circuits == []
        world.play(20)
        due = NOON + timedelta(seconds=60)
        late = [run["state"] for job in bad for run in world.runs(job) if run["scheduled_at"] <= due]
        assert set(late) == {"FAILED", "SUCCESS"}
        actions = [action for action, _ in audited(world)]
        assert actions == ["run_circuit.open", "run_circuit.half_open", "run_circuit.closed"]

    def test_other_tenant_calls_the_host(self, world, tenant):
        other = world.tenant("enterprise")
        for _ in range(12):
            world.job(tenant, EVERY_10_S, max_attempts=1)
        free = world.job(other, EVERY_10_S)
        world.answer = lambda call: (Outcome.REFUSED if call.tenant_id == tenant[0] else Outcome.SUCCEEDED, 0.1)
        world.play(21)
        bootstrap.run_guard().check()
        world.play(20)
        assert [run["state"] for run in world.runs(free)][:3] == ["SUCCESS"] * 3
