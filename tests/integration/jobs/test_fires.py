"""The explanation of fires through the handler; the engine and PostgreSQL are real, the time is the test's."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from artiway.ids import to_wire
from tests.fakes.clock import NOON

EVERY_10_S = "*/10 * * * * ?"


@pytest.fixture
def tenant(world):
    return world.tenant("enterprise")


@pytest.fixture
def ask(make_ask, tenant):
    return make_ask(tenant)


@pytest.fixture
def fires_of(ask):
    def fires_of(job, *, since, until, **more):
        query = {"from": _time(since), "to": _time(until), **more}
        status, answer = ask("GET", f"/jobs/{to_wire('job', job)}/fires", query=query)
        assert status == 200, answer
        return answer

    return fires_of


def _time(seconds):
    return (NOON + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def outcomes(answer):
    return [(_second(fire["scheduledTime"]), fire["outcome"]) for fire in answer["items"]]


def _second(text):
    return round((datetime.fromisoformat(text) - NOON).total_seconds())


def test_every_fire_since_creation_is_accounted_for(world, ask, fires_of, tenant):
    """A pause, an edit, an overlap and an outage of the trigger in the life of one job."""
    job = world.job(tenant, EVERY_10_S, overlap_policy="SKIP", misfire_policy="FIRE_ONCE", catchup_window_s=120)
    path = f"/jobs/{to_wire('job', job)}"
    world.play(25)
    assert ask("POST", f"{path}/pause", {"note": "by mistake"})[0] == 200
    world.play(30)
    assert ask("POST", f"{path}/resume")[0] == 200
    succeeds = world.answer
    world.answer = lambda _: (succeeds(_)[0], 25.0)
    world.play(40)
    world.answer = succeeds
    assert ask("PATCH", path, {"schedule": {"expr": "5/15 * * * * ?"}})[0] == 200
    world.play(30)
    world.advance(300)
    world.play(20)
    found = fires_of(job, since=0, until=600)
    by_outcome = {outcome for _, outcome in outcomes(found)}
    assert {"RUN", "PAUSED", "SKIPPED_OVERLAP", "COALESCED", "MISFIRED", "UPCOMING"} <= by_outcome
    assert "UNACCOUNTED" not in by_outcome
    shown = [fire["runId"] for fire in found["items"] if fire["outcome"] == "RUN"]
    assert {to_wire("run", run["run_id"]) for run in world.runs(job)} == {*shown}
    paused = [fire for fire in found["items"] if fire["outcome"] == "PAUSED"]
    assert {fire["reason"] for fire in paused} == {f"paused by {to_wire('usr', tenant[1])}: by mistake"}
    assert outcomes(found)[:5] == [(0, "BEFORE_CREATION"), (10, "RUN"), (20, "RUN"), (30, "PAUSED"), (40, "PAUSED")]


def test_run_that_waits_is_put_off(world, fires_of):
    world.answer = lambda _: None
    tenant = world.tenant("vip", job_concurrency=1)
    job = world.job(tenant, EVERY_10_S)
    world.play(25)
    (first, second) = [run for run in world.runs(job) if run["scheduled_at"] <= world.now]
    assert (first["state"], second["defer_reason"]) == ("RUNNING", "tenant_quota")


def test_pages_continue_where_they_ended(world, fires_of, tenant):
    job = world.job(tenant, EVERY_10_S)
    world.play(95)
    whole = fires_of(job, since=5, until=95)
    assert whole["nextCursor"] is None
    pages, cursor = [], None
    while True:
        page = fires_of(job, since=5, until=95, limit=4, **({"cursor": cursor} if cursor else {}))
        pages += page["items"]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert pages == whole["items"]
    assert len(pages) == 9


def test_lost_fire_is_not_hidden(world, fires_of, tenant):
    job = world.job(tenant, EVERY_10_S)
    world.play(35)
    world.rows(
        "DELETE FROM job_run WHERE job_id = %s AND scheduled_at = %s RETURNING 1", job, NOON + timedelta(seconds=20)
    )
    assert outcomes(fires_of(job, since=10, until=40)) == [(10, "RUN"), (20, "UNACCOUNTED"), (30, "RUN")]


@pytest.mark.parametrize(
    "query", [{"from": _time(10), "to": _time(10)}, {"from": "yesterday"}, {"cursor": "x"}, {"limit": "101"}]
)
def test_bad_range_is_refused(world, ask, tenant, query):
    job = world.job(tenant, EVERY_10_S)
    assert ask("GET", f"/jobs/{to_wire('job', job)}/fires", query=query)[0] == 422


def test_job_of_another_tenant_is_unknown(world, ask, tenant):
    job = world.job(world.tenant("vip"), EVERY_10_S)
    assert ask("GET", f"/jobs/{to_wire('job', job)}/fires")[0] == 404
