"""A → B → C for one scheduled time, through the handler; the engine and PostgreSQL are real, the time is the test's."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from artiway.ids import from_wire, to_wire
from artiway.jobs.messages import Outcome
from tests.fakes.clock import NOON
from tests.simulation.jobs_world import JobsWorld

EVERY_10_S = {"type": "CRON", "expr": "*/10 * * * * ?"}
HTTP = {"type": "HTTP", "url": "https://shop.example/hook"}


@pytest.fixture
def tenant(world):
    return world.tenant("enterprise")


@pytest.fixture
def ask(make_ask, tenant):
    return make_ask(tenant)


@pytest.fixture
def make(ask):
    def make(name, schedule, **more):
        body = {"name": name, "schedule": schedule, "task": HTTP, "retryPolicy": {"maxAttempts": 1}, **more}
        status, answer = ask("POST", "/jobs", body)
        assert status == 201, answer
        return from_wire("job", answer["jobId"])

    return make


def after(*jobs):
    return {"type": "AFTER", "after": [to_wire("job", job) for job in jobs]}


@pytest.fixture
def chain(make):
    first = make("a", EVERY_10_S, endsAt=(NOON + timedelta(seconds=15)).isoformat())
    second = make("b", after(first))
    return first, second, make("c", after(second))


def fires(ask, job):
    query = {"from": f"{NOON:%Y-%m-%dT%H:%M:%SZ}", "to": f"{NOON + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"}
    _, answer = ask("GET", f"/jobs/{to_wire('job', job)}/fires", query=query)
    return [(fire["outcome"], fire["reason"]) for fire in answer["items"]]


def states(world: JobsWorld, jobs):
    return [[(run["scheduled_at"], run["state"]) for run in world.runs(job)] for job in jobs]


def failing(world, *jobs):
    world.answer = lambda call: (Outcome.REFUSED if call.job_id in jobs else Outcome.SUCCEEDED, 0.1)


def test_chain_runs_for_one_scheduled_time(world, chain):
    world.play(20)
    at = NOON + timedelta(seconds=10)
    assert states(world, chain) == [[(at, "SUCCESS")]] * 3
    started = [world.runs(job)[0]["started_at"] for job in chain]
    assert started == sorted(started)


def test_failure_keeps_the_rest_from_starting(world, ask, chain):
    failing(world, chain[0])
    world.play(20)
    assert [len(world.runs(job)) for job in chain] == [1, 0, 0]
    (run,) = world.runs(chain[0])
    reason = f"{to_wire('job', chain[0])} failed ({to_wire('run', run['run_id'])})"
    assert fires(ask, chain[1]) == fires(ask, chain[2]) == [("PREDECESSOR_FAILED", reason)]


def test_replay_lets_successor_run(world, ask, chain):
    failing(world, chain[1])
    world.play(20)
    assert [len(world.runs(job)) for job in chain] == [1, 1, 0]
    failing(world)
    (run,) = world.runs(chain[1])
    assert ask("POST", f"/runs/{to_wire('run', run['run_id'])}/replay")[0] == 202
    world.play(5)
    at = NOON + timedelta(seconds=10)
    assert states(world, chain) == [[(at, "SUCCESS")]] * 3
    assert fires(ask, chain[2]) == [("RUN", "run, success")]


def test_terminated_run_is_named(world, ask, chain):
    world.answer = lambda _: None
    world.play(15)
    (run,) = world.runs(chain[0])
    assert ask("POST", f"/runs/{to_wire('run', run['run_id'])}/terminate")[0] == 202
    assert [outcome for outcome, _ in fires(ask, chain[2])] == ["PREDECESSOR_FAILED"]
    assert "was terminated" in fires(ask, chain[1])[0][1]


def test_replaced_run_is_named(world, ask, make):
    """CANCEL_OTHER ends a run as a request does: the jobs after it say so."""
    ends = (NOON + timedelta(seconds=25)).isoformat()
    first = make("a", EVERY_10_S, overlapPolicy="CANCEL_OTHER", endsAt=ends)
    second = make("b", after(first))
    third = make("c", after(second))
    world.answer = lambda _: None
    world.play(22)
    replaced, newer = world.runs(first)
    assert (replaced["state"], newer["state"]) == ("TERMINATED", "RUNNING")
    reason = f"{to_wire('job', first)} was terminated ({to_wire('run', replaced['run_id'])})"
    assert ("PREDECESSOR_FAILED", reason) in fires(ask, second)
    assert ("PREDECESSOR_FAILED", reason) in fires(ask, third)


def test_all_predecessors_must_succeed(world, ask, make):
    ends = (NOON + timedelta(seconds=25)).isoformat()
    often = make("often", EVERY_10_S, endsAt=ends)
    rare = make("rare", {"type": "CRON", "expr": "*/20 * * * * ?"}, endsAt=ends)
    last = make("last", after(often, rare))
    world.play(40)
    assert [len(world.runs(job)) for job in (often, rare)] == [2, 1]
    assert [run["scheduled_at"] for run in world.runs(last)] == [NOON + timedelta(seconds=20)]


def test_answer_of_predecessor_is_in_body(world, ask, make):
    first = make("a", EVERY_10_S, endsAt=(NOON + timedelta(seconds=15)).isoformat())
    body = {"said": "{{predecessor.answer}}", "status": "{{predecessor.httpStatus}}"}
    make("b", after(first), task={**HTTP, "body": body})
    bodies = {}

    def answer(call):
        bodies[call.job_id] = call.body
        return Outcome.SUCCEEDED, 0.1

    world.answer = answer
    world.said = 'it "works"'
    world.play(20)
    assert [json.loads(text) for job, text in bodies.items() if job != first] == [{"said": world.said, "status": "200"}]


def test_paused_successor_is_explained(world, ask, chain):
    assert ask("POST", f"/jobs/{to_wire('job', chain[1])}/pause")[0] == 200
    world.play(20)
    assert [len(world.runs(job)) for job in chain] == [1, 0, 0]
    assert fires(ask, chain[1]) == [("PAUSED", "the job was paused")]
    status, shown = ask("POST", f"/jobs/{to_wire('job', chain[1])}/resume")
    assert (status, shown["status"], shown["nextFireTime"]) == (200, "ACTIVE", None)


def test_backfill_of_first_job_runs_the_chain(world, ask, make):
    first = make("a", {"type": "CRON", "expr": "0 0 * * * ?"})
    last = make("b", after(first))
    wanted = {"from": "2026-02-23T00:00:00Z", "to": "2026-02-23T06:00:00Z"}
    assert ask("POST", f"/jobs/{to_wire('job', first)}/backfill", wanted)[1]["acceptedRuns"] == 6
    world.play(40)
    assert [(run["kind"], run["state"]) for run in world.runs(last)] == [("BACKFILL", "SUCCESS")] * 6
    assert ask("POST", f"/jobs/{to_wire('job', last)}/backfill", wanted)[0] == 422


def test_circle_is_refused(ask, chain):
    change = {"schedule": after(chain[2])}
    status, answer = ask("PATCH", f"/jobs/{to_wire('job', chain[1])}", change)
    assert (status, answer["code"]) == (422, "DAG_422_CYCLE")
    names = [to_wire("job", job) for job in (chain[1], chain[2], chain[1])]
    assert answer["details"]["cycle"] == names


def test_predecessor_in_use_stays(ask, chain):
    status, answer = ask("DELETE", f"/jobs/{to_wire('job', chain[0])}")
    assert (status, answer["code"]) == (409, "JOB_409_HAS_SUCCESSORS")
    assert ask("DELETE", f"/jobs/{to_wire('job', chain[2])}")[0] == 204
    assert ask("DELETE", f"/jobs/{to_wire('job', chain[1])}")[0] == 204


@pytest.mark.parametrize(
    "schedule",
    [
        {"type": "AFTER"},
        {"type": "AFTER", "after": []},
        {"type": "AFTER", "after": ["job_" + "0" * 32]},
        {"type": "AFTER", "after": ["nonsense"]},
        {"type": "CRON", "expr": "0 * * * *", "after": ["job_" + "0" * 32]},
    ],
)
def test_bad_predecessors_are_refused(ask, schedule):
    assert ask("POST", "/jobs", {"name": "x", "schedule": schedule, "task": HTTP})[0] == 422


def test_job_of_other_tenant_is_unknown(world, make_ask, chain):
    other = make_ask(world.tenant("vip"))
    assert other("POST", "/jobs", {"name": "x", "schedule": after(chain[0]), "task": HTTP})[0] == 422
