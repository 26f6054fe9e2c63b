"""Backfills through the handler; the engine and PostgreSQL are real, the time is the test's."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from artiway import bootstrap, ids
from artiway.errors import Refused
from artiway.ids import to_wire
from artiway.jobs.backfills.model import Range, Reprocess
from artiway.jobs.backfills.repository import PostgresBackfills
from artiway.jobs.backfills.service import BackfillService
from artiway.jobs.messages import Outcome
from tests.fakes.clock import NOON
from tests.integration.jobs.desk import opened

EVERY_5_MINUTES = "0 */5 * * * ?"
FROM, TO = "2026-02-23T00:00:00Z", "2026-02-23T06:00:00Z"


@pytest.fixture
def tenant(world):
    return world.tenant("enterprise")


@pytest.fixture
def ask(make_ask, tenant):
    return make_ask(tenant)


@pytest.fixture
def start(world, ask):
    def start(job, **more):
        body = {"from": FROM, "to": TO, "parallelism": 10, **more}
        status, answer = ask("POST", f"/jobs/{to_wire('job', job)}/backfill", body)
        assert status == 202, answer
        return answer

    return start


@pytest.fixture
def job(world, tenant):
    return world.job(tenant, EVERY_5_MINUTES, max_attempts=1)


def backfilled(world, job):
    return [run for run in world.runs(job) if run["kind"] == "BACKFILL"]


def states(world, job):
    found = [run["state"] for run in backfilled(world, job)]
    return {state: found.count(state) for state in sorted(set(found))}


class TestSixHoursOfFiveMinutes:
    def test_first_request_accepts_72_and_second_none(self, world, ask, start, job):
        first = start(job)
        assert first["acceptedRuns"] == 72
        assert start(job)["acceptedRuns"] == 0
        world.play(60)
        assert states(world, job) == {"SUCCESS": 72}
        times = [run["scheduled_at"] for run in backfilled(world, job)]
        start_at = datetime(2026, 2, 23, tzinfo=UTC)
        assert times == [start_at + timedelta(minutes=5 * number) for number in range(72)]
        assert start(job)["acceptedRuns"] == 0
        status, shown = ask("GET", f"/backfills/{first['backfillId']}")
        assert (status, shown["status"], shown["total"], shown["done"]) == (200, "COMPLETED", 72, 72)
        assert (shown["failed"], shown["remaining"]) == (0, 0)

    def test_dry_run_counts_and_stores_nothing(self, world, start, job):
        assert start(job, dryRun=True) == {"backfillId": None, "acceptedRuns": 72}
        assert (backfilled(world, job), world.rows("SELECT 1 FROM backfill")) == ([], [])

    def test_only_failures_are_reprocessed(self, world, start, job):
        failing = {datetime(2026, 2, 23, hour, tzinfo=UTC) for hour in (1, 3)}
        world.answer = lambda call: (Outcome.REFUSED if call.scheduled_at in failing else Outcome.SUCCEEDED, 0.1)
        start(job)
        world.play(60)
        assert states(world, job) == {"FAILED": 2, "SUCCESS": 70}
        world.answer = lambda _: (Outcome.SUCCEEDED, 0.1)
        before = len(world.calls)
        assert start(job, reprocess="failed")["acceptedRuns"] == 2
        world.play(20)
        assert states(world, job) == {"SUCCESS": 72}
        assert len(world.calls) - before == 2
        again = {run["scheduled_at"] for run in backfilled(world, job) if run["generation"] == 2}
        assert again == failing
        assert start(job, reprocess="completed")["acceptedRuns"] == 72

    def test_run_of_running_backfill_is_not_taken(self, world, start, job):
        world.answer = lambda _: None
        start(job)
        world.play(5)
        assert start(job, reprocess="completed")["acceptedRuns"] == 0

    def test_parallelism_bounds_runs_at_once(self, world, start, job):
        world.answer = lambda _: (Outcome.SUCCEEDED, 3.0)
        start(job, parallelism=4)
        most = 0
        for _ in range(30):
            world.play(1)
            most = max(most, states(world, job).get("RUNNING", 0))
        assert most == 4

    def test_backfill_of_paused_job_runs(self, world, ask, start, job):
        ask("POST", f"/jobs/{to_wire('job', job)}/pause")
        start(job)
        world.play(60)
        assert states(world, job) == {"SUCCESS": 72}

    def test_audit_names_the_range(self, world, start, job):
        start(job)
        (row,) = world.rows("SELECT action, target, details FROM audit_log WHERE action = 'job.backfill'")
        assert (row["target"], row["details"]["runs"]) == (to_wire("job", job), 72)


class TestCancel:
    def test_runs_that_have_not_begun_leave(self, world, ask, start, job):
        world.answer = lambda _: (Outcome.SUCCEEDED, 5.0)
        backfill = start(job, parallelism=3)["backfillId"]
        world.play(7)
        status, shown = ask("DELETE", f"/backfills/{backfill}")
        assert (status, shown["status"]) == (200, "CANCELLED")
        assert shown["remaining"] > 60
        world.play(30)
        left = states(world, job)
        assert left.keys() <= {"SUCCESS", "TERMINATED"}
        assert left["SUCCESS"] <= 6
        assert ask("DELETE", f"/backfills/{backfill}")[0] == 409
        assert start(job)["acceptedRuns"] == 72 - sum(left.values())

    def test_cancelled_reprocessing_leaves_terminated_runs(self, world, ask, start, job):
        start(job)
        world.play(60)
        backfill = start(job, reprocess="completed")["backfillId"]
        assert ask("DELETE", f"/backfills/{backfill}")[0] == 200
        assert states(world, job) == {"TERMINATED": 72}

    def test_deleted_job_ends_its_backfill(self, world, ask, start, job):
        backfill = start(job)["backfillId"]
        assert ask("DELETE", f"/jobs/{to_wire('job', job)}")[0] == 204
        world.play(6)
        assert ask("GET", f"/backfills/{backfill}")[1]["status"] == "CANCELLED"
        assert world.rows("SELECT 1 FROM job_run WHERE due_at > '9000-01-01'") == []

    def test_other_tenant_sees_no_backfill(self, world, make_ask, start, job):
        backfill = start(job)["backfillId"]
        other = make_ask(world.tenant("vip"))
        assert other("GET", f"/backfills/{backfill}")[0] == 404
        assert other("DELETE", f"/backfills/{backfill}")[0] == 404
        assert other("GET", "/backfills")[1]["items"] == []
        assert other("POST", f"/jobs/{to_wire('job', job)}/backfill", {"from": FROM, "to": TO})[0] == 404


class TestRefusals:
    @pytest.mark.parametrize(
        "change",
        [
            {"to": FROM},
            {"to": "2030-01-01T00:00:00Z"},
            {"from": "2020-01-01T00:00:00Z"},
            {"parallelism": 0},
            {"reprocess": "all"},
            {"from": "2026-02-23"},
        ],
    )
    def test_bad_range_is_refused(self, world, ask, job, change):
        body = {"from": FROM, "to": TO, "parallelism": 10, **change}
        assert ask("POST", f"/jobs/{to_wire('job', job)}/backfill", body)[0] == 422
        assert world.rows("SELECT 1 FROM backfill") == []

    def test_too_many_fires_are_refused(self, world, ask, tenant):
        job = world.job(tenant, "* * * * * ?")
        status, answer = ask("POST", f"/jobs/{to_wire('job', job)}/backfill", {"from": FROM, "to": TO})
        assert (status, answer["code"]) == (422, "JOB_422_INVALID")


class TestLiveRuns:
    """A backfill beside the schedules of the same tenant, of the same job and of another tenant."""

    def delays(self, world, jobs):
        found = [
            (run["started_at"] - run["assigned_at"]).total_seconds()
            for job in jobs
            for run in world.runs(job)
            if run["kind"] == "SCHEDULED" and run["started_at"] is not None
        ]
        return sorted(found)

    def live(self, world, tenant):
        other = world.tenant("free")
        return [
            *(world.job(tenant, "*/10 * * * * ?", overlap_policy="SKIP", concurrency_limit=1) for _ in range(10)),
            *(world.job(other, "0 * * * * ?") for _ in range(5)),
        ]

    def test_start_delay_stays_within_ratio(self, open_world, monkeypatch):
        """2,880 runs wait; the tenant may have 20 at once, of which each takes 2 s."""
        found = {}
        for is_backfilled in (False, True):
            with open_world() as world:
                tenant = world.tenant("standard", job_period_s=1, job_per_minute=3_000)
                jobs = self.live(world, tenant)
                world.answer = lambda _: (Outcome.SUCCEEDED, 2.0)
                if is_backfilled:
                    backfills = bootstrap.backfills()
                    day = datetime(2026, 2, 18, tzinfo=UTC)
                    wanted = Range(day, day + timedelta(days=10), 1_000, Reprocess.NONE)
                    _, total = backfills.start(
                        tenant[0], jobs_of(world, tenant), wanted, actor_id=tenant[1], is_dry_run=False
                    )
                    assert total == 2_880
                world.play(120)
                found[is_backfilled] = self.delays(world, jobs)
                if is_backfilled:
                    done = world.rows("SELECT count(*) AS n FROM job_run WHERE kind = 'BACKFILL' AND state = 'SUCCESS'")
                    assert done[0]["n"] > 200
                    assert not world.rows("SELECT 1 FROM job_fire_note")
        assert len(found[True]) == len(found[False]) > 100
        for place in (0.5, 0.95, 1):
            alone, beside = (delays[int((len(delays) - 1) * place)] for delays in (found[False], found[True]))
            assert beside <= max(1.5 * alone, 0.3)


def jobs_of(world, tenant):
    """A five-minute job for the backfill."""
    return world.job(tenant, EVERY_5_MINUTES)


class TestResume:
    @pytest.fixture
    def paused(self, world, ask, tenant):
        job = world.job(tenant, "*/10 * * * * ?")
        world.play(15)
        ask("POST", f"/jobs/{to_wire('job', job)}/pause")
        world.advance(60)
        return job

    @pytest.mark.parametrize(("catch_up", "caught"), [("none", []), ("once", [70]), ("all", [20, 30, 40, 50, 60, 70])])
    def test_fires_of_pause_are_made_up_for(self, world, ask, paused, catch_up, caught):
        assert ask("POST", f"/jobs/{to_wire('job', paused)}/resume", {"catchUp": catch_up})[0] == 200
        world.play(320)
        runs = [run for run in world.runs(paused) if run["kind"] == "CATCHUP"]
        assert [round((run["scheduled_at"] - NOON).total_seconds()) for run in runs] == caught
        assert {run["state"] for run in runs} <= {"SUCCESS"}
        noted = sum(note["fires"] for note in world.notes(paused))
        assert noted == (5 if catch_up == "once" else 0)

    def test_unknown_wish_is_refused(self, ask, paused):
        assert ask("POST", f"/jobs/{to_wire('job', paused)}/resume", {"catchUp": "some"})[0] == 422


def service_of(desk):
    return BackfillService(PostgresBackfills(desk.store, desk.run_store), desk.control, desk.cold, desk.settings)


def test_requests_at_once_accept_each_fire_once(addresses):
    with opened(addresses) as desk:
        actor = desk.tenant()
        view = desk.create(actor)
        until = desk.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        wanted = Range(until - timedelta(hours=3), until, 5, Reprocess.NONE)
        barrier = threading.Barrier(4)

        def request():
            with opened(addresses) as own:
                barrier.wait()
                given = {"actor_id": actor.user_id, "is_dry_run": False}
                return service_of(own).start(actor.tenant_id, view.job.job_id, wanted, **given)[1]

        with ThreadPoolExecutor(4) as pool:
            accepted = [one.result() for one in [pool.submit(request) for _ in range(4)]]
        assert sorted(accepted) == [0, 0, 0, 36]


def test_range_without_fires_ends_at_once(addresses):
    with opened(addresses) as desk:
        actor = desk.tenant()
        at = desk.now() + timedelta(seconds=60)
        view = desk.create(actor, schedule={"type": "ONCE", "at": at.isoformat()})
        service = service_of(desk)
        wanted = Range(at - timedelta(days=2), at - timedelta(days=1), 1, Reprocess.NONE)
        backfill, total = service.start(
            actor.tenant_id, view.job.job_id, wanted, actor_id=ids.new_id(), is_dry_run=False
        )
        assert (total, service.backfill(actor.tenant_id, backfill).status) == (0, "COMPLETED")
        with pytest.raises(Refused):
            service.start(
                actor.tenant_id,
                view.job.job_id,
                Range(at, at + timedelta(days=1), 1, Reprocess.NONE),
                actor_id=ids.new_id(),
                is_dry_run=True,
            )
