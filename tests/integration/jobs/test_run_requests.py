"""Runs that a request ends or starts again, through the handlers; the engine and PostgreSQL are real."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from artiway.ids import to_wire
from artiway.jobs.definitions import runs as run_requests
from artiway.jobs.messages import Outcome
from tests.fakes.clock import NOON
from tests.integration.payments.environment import http_event, load_function

EVERY_10_S = "*/10 * * * * ?"
ONE_ATTEMPT = {"max_attempts": 1}


@pytest.fixture
def tenant(world):
    return world.tenant("enterprise")


@pytest.fixture
def ask(world, tenant):
    modules = {"ops": load_function("ops"), "jobs": load_function("jobs")}

    def ask(target, body, *, may="job.ops ops.write", by=tenant):
        module = modules[target.split("/")[1]]
        identity = json.dumps({"tenantId": str(by[0]), "userId": str(by[1]), "permissions": may})
        headers = {"x-identity": identity, "content-type": "application/json"}
        event = http_event("POST", f"/api/v1{target}", headers, json.dumps(body).encode(), set(module.api.rules))
        answer = module.handler(event, None)
        return answer["statusCode"], json.loads(answer["body"])

    return ask


def audited(world, action):
    rows = world.rows("SELECT tenant_id, target FROM audit_log WHERE action = %s ORDER BY audit_id", action)
    return [(row["tenant_id"], row["target"]) for row in rows]


def wire(runs):
    return [to_wire("run", run["run_id"]) for run in runs]


class TestOperatorCancels:
    @pytest.fixture
    def waiting(self, world):
        """A call that never ends, and three runs that wait for its place."""
        world.answer = lambda _: None
        other = world.tenant("vip", job_concurrency=1)
        for _ in range(4):
            world.job(other, None, at=NOON + timedelta(seconds=2))
        world.play(4)
        return other[0], sorted(world.runs(), key=lambda run: run["state"] == "PENDING")

    def test_live_runs_of_any_tenant_end(self, world, ask, waiting):
        tenant_id, (running, first, *_) = waiting
        assert (running["state"], first["is_deferred"]) == ("RUNNING", True)
        chosen = wire([running, first])
        status, answer = ask("/ops/runs/cancel", {"ids": [*chosen, to_wire("run", uuid4())]})
        assert (status, answer) == (200, {"ids": sorted(chosen), "count": 2})
        states = {run["run_id"]: run["state"] for run in world.runs()}
        assert (states[running["run_id"]], states[first["run_id"]]) == ("TERMINATED", "TERMINATED")
        assert sorted(audited(world, "run.terminate")) == [(tenant_id, target) for target in sorted(chosen)]

    def test_freed_place_goes_to_next_run(self, world, ask, waiting):
        _, (running, *_) = waiting
        ask("/ops/runs/cancel", {"ids": wire([running])})
        world.play(1)
        assert sorted(run["state"] for run in world.runs()) == ["PENDING", "PENDING", "RUNNING", "TERMINATED"]

    def test_ended_run_is_left_as_it_is(self, world, ask, tenant):
        job = world.job(tenant, None, at=NOON + timedelta(seconds=2))
        world.play(4)
        (run,) = world.runs(job)
        assert run["state"] == "SUCCESS"
        assert ask("/ops/runs/cancel", {"ids": wire([run])}) == (200, {"ids": [], "count": 0})
        assert world.runs(job) == [run]
        assert audited(world, "run.terminate") == []

    @pytest.mark.parametrize("ids", [[], [7], ["x" * 65], ["run_1"] * 101, None])
    def test_bad_ids_are_refused(self, ask, ids):
        assert ask("/ops/runs/cancel", {"ids": ids})[0] == 422

    def test_permission_is_needed(self, world, ask, waiting):
        _, (running, *_) = waiting
        assert ask("/ops/runs/cancel", {"ids": wire([running])}, may="ops.read job.ops")[0] == 403
        assert "TERMINATED" not in {run["state"] for run in world.runs()}


class TestReplayOfRange:
    @pytest.fixture
    def job(self, world, tenant):
        """Six runs at 10 to 60 s: the fourth succeeded, the others failed."""
        ends = iter([Outcome.FAILED] * 3 + [Outcome.SUCCEEDED] + [Outcome.FAILED] * 2)
        world.answer = lambda _: (next(ends), 0.1)
        job = world.job(tenant, EVERY_10_S, ends_at=NOON + timedelta(seconds=65), **ONE_ATTEMPT)
        world.play(65)
        world.answer = lambda _: (Outcome.SUCCEEDED, 0.1)
        return job

    def generations(self, world, job):
        return [(run["state"], run["generation"]) for run in world.runs(job)]

    def path(self, job):
        return f"/jobs/{to_wire('job', job)}/replay"

    def between(self, first, last, **more):
        """From a second on, to another one exclusively."""
        return {
            "from": (NOON + timedelta(seconds=first)).isoformat(),
            "to": (NOON + timedelta(seconds=last)).isoformat(),
            **more,
        }

    def test_failed_runs_of_range_run_again(self, world, ask, job, tenant):
        failed, good = ("FAILED", 1), ("SUCCESS", 1)
        assert self.generations(world, job) == [failed, failed, failed, good, failed, failed]
        assert ask(self.path(job), self.between(20, 60)) == (202, {"replayedRuns": 3, "hasMore": False, "nextTo": None})
        world.play(3)
        again = ("SUCCESS", 2)
        assert self.generations(world, job) == [failed, again, again, good, again, failed]
        assert [run["dead_at"] is None for run in world.runs(job)] == [False, True, True, True, True, False]
        assert len(world.calls) == 9
        assert audited(world, "run.replay") == [(tenant[0], to_wire("job", job))]

    @pytest.mark.parametrize(("state", "replayed"), [("SUCCESS", [40]), ("TERMINATED", []), (None, [20, 30, 40, 50])])
    def test_state_chooses_the_runs(self, world, ask, job, state, replayed):
        assert ask(self.path(job), self.between(20, 60, state=state))[1]["replayedRuns"] == len(replayed)
        found = [run["scheduled_at"] for run in world.runs(job) if run["generation"] == 2]
        assert found == [NOON + timedelta(seconds=second) for second in replayed]

    @pytest.mark.parametrize(("state", "replayed"), [("FAILED", [2, 2, 1]), (None, [2, 2, 2])])
    def test_rest_of_long_range_is_replayed_once(self, world, ask, job, monkeypatch, state, replayed):
        monkeypatch.setattr(run_requests, "REPLAY_RUNS", 2)
        # The simulation's cursor gives rows an order of its own.
        monkeypatch.setattr(world.database._connection, "cursor_factory", psycopg.Cursor)
        body, counts = self.between(0, 70, state=state), []
        while body["to"] is not None:
            answer = ask(self.path(job), body)[1]
            assert answer["hasMore"] == (answer["nextTo"] is not None)
            body["to"] = answer["nextTo"]
            counts.append(answer["replayedRuns"])
            world.play(3)  # they end again
        assert counts == replayed
        assert sum(generation == 2 for _, generation in self.generations(world, job)) == sum(replayed)

    def test_strangers_and_bad_ranges_change_nothing(self, world, ask, job):
        before, stranger = world.runs(job), world.tenant("vip")
        assert ask(self.path(job), self.between(0, 70), by=stranger)[0] == 404
        assert ask(self.path(uuid4()), self.between(0, 70))[0] == 404
        assert ask(self.path(job), self.between(0, 70), may="job.read job.write job.run")[0] == 403
        for bad in (
            {},
            {"from": "now", "to": "then"},
            self.between(0, 70, state="RUNNING"),
            {"from": NOON.isoformat()},
        ):
            assert ask(self.path(job), bad)[0] == 422
        assert ask(self.path(job), self.between(60, 20)) == (202, {"replayedRuns": 0, "hasMore": False, "nextTo": None})
        assert world.runs(job) == before
