"""Old days leave PostgreSQL and are read in the archive, through the handler. The time is the test's."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from artiway import bootstrap
from artiway.ids import to_wire
from artiway.jobs.archive import service as archive_service
from artiway.jobs.archive.repository import PostgresArchive, PostgresParts
from artiway.jobs.archive.service import ArchiveService, ColdReader
from artiway.jobs.messages import Outcome
from tests.fakes.clock import NOON
from tests.fakes.objects import StoredObjects

DAY_S = 86_400


@pytest.fixture
def tenant(world):
    return world.tenant("enterprise")


@pytest.fixture
def objects(world, jobs_addresses):
    objects = StoredObjects()
    bootstrap.cold_runs.supply(ColdReader(PostgresParts(world.database), objects))
    yield objects
    with psycopg.connect(jobs_addresses.superuser) as connection:  # the next test empties these tables
        connection.execute("SELECT job_partition_ensure(date '2026-02-18' + day) FROM generate_series(0, 16) AS day")


@pytest.fixture
def ask(objects, make_ask, tenant):
    return make_ask(tenant)


@pytest.fixture
def archive(world, objects):
    values = bootstrap.service_setting_values()
    store = PostgresArchive(world.service_database)
    return ArchiveService(store, objects, values, monotonic=lambda: 0.0)


@pytest.fixture
def run(world, tenant, ask):
    """A run with three attempts, and ten others of the same day."""
    ends = iter([Outcome.FAILED, Outcome.FAILED])
    world.answer = lambda _: (next(ends, Outcome.SUCCEEDED), 0.1)
    job = world.job(tenant, None, at=NOON + timedelta(seconds=3))
    world.play(15)
    for number in range(10):
        world.job(tenant, None, at=NOON + timedelta(seconds=20 + number))
    world.play(30)
    (run,) = world.runs(job)
    assert (run["state"], run["attempt"]) == ("SUCCESS", 3)
    return run


@pytest.fixture
def read(ask, run):
    """The run and its log, as the API shows them."""

    def read(limit=500):
        path = f"/runs/{to_wire('run', run['run_id'])}"
        shown, lines, cursor = ask("GET", path), [], None
        while True:
            query = {"limit": limit} | ({"cursor": cursor} if cursor else {})
            status, page = ask("GET", f"{path}/logs", query=query)
            assert status == 200, page
            lines += page["items"]
            cursor = page["nextCursor"]
            if cursor is None:
                return shown, lines

    return read


def hot_runs(world):
    return world.rows("SELECT count(*) AS n FROM job_run")[0]["n"]


def in_order(shown):
    """The simulated database sorts rows by their text; the archive sorts them by time."""
    return shown[0], sorted(shown[1], key=lambda line: line["at"])


class TestOldDay:
    def test_log_is_read_back_line_by_line(self, world, archive, run, read):
        before = in_order(read())
        assert len(before[1]) == 3
        world.advance(60 * DAY_S)
        counts = archive.run(within_s=1)
        assert (counts["days"] >= 3, counts["failures"]) == (True, 0)
        assert hot_runs(world) == 0
        assert world.rows("SELECT 1 FROM run_log") == []
        assert read() == before
        assert read(limit=1) == before

    def test_recent_days_stay(self, world, archive, run):
        world.advance(7 * DAY_S)
        archive.run(within_s=1)
        assert hot_runs(world) == 11

    def test_run_of_other_tenant_is_unknown(self, world, archive, run, make_ask):
        world.advance(60 * DAY_S)
        archive.run(within_s=1)
        other = make_ask(world.tenant("vip"))
        assert other("GET", f"/runs/{to_wire('run', run['run_id'])}")[0] == 404
        assert other("GET", f"/runs/{to_wire('run', run['run_id'])}/logs")[0] == 404

    def test_unknown_run_stays_unknown(self, world, archive, run, ask):
        world.advance(60 * DAY_S)
        archive.run(within_s=1)
        other = UUID(int=run["run_id"].int ^ 1)
        assert ask("GET", f"/runs/{to_wire('run', other)}")[0] == 404

    def test_archived_run_is_not_replayed(self, world, archive, run, ask):
        world.advance(60 * DAY_S)
        archive.run(within_s=1)
        assert ask("POST", f"/runs/{to_wire('run', run['run_id'])}/replay")[0] == 409

    def test_day_with_live_run_stays(self, world, archive, run, tenant):
        world.answer = lambda _: None
        world.job(tenant, None, at=NOON + timedelta(seconds=60))
        world.play(20)
        world.advance(60 * DAY_S)
        archive.run(within_s=1)
        assert hot_runs(world) == 12

    def test_second_pass_changes_nothing(self, world, archive, objects, run):
        world.advance(60 * DAY_S)
        archive.run(within_s=1)
        stored = dict(objects.contents)
        assert archive.run(within_s=1)["days"] == 0
        assert objects.contents == stored

    def test_parts_continue_after_interruption(self, world, archive, run, read, monkeypatch):
        before = in_order(read())
        monkeypatch.setattr(archive_service, "PART_ROWS", 4)
        world.advance(60 * DAY_S)
        for _ in range(60):
            times = iter([0.0, 0.0])
            archive._monotonic = lambda times=times: next(times, 2.0)
            archive.run(within_s=1)
        archive._monotonic = lambda: 0.0
        assert archive.run(within_s=1)["failures"] == 0
        assert hot_runs(world) == 0
        assert read() == before

    def test_old_objects_are_purged(self, world, archive, objects, run, ask):
        world.advance(60 * DAY_S)
        archive.run(within_s=1)
        world.advance(140 * DAY_S)
        assert archive.run(within_s=1)["expired"] > 0
        assert objects.contents == {}
        assert ask("GET", f"/runs/{to_wire('run', run['run_id'])}")[0] == 404


class TestDamage:
    @pytest.mark.parametrize("damage", ["missing", "changed", "cut"])
    def test_nothing_is_dropped_if_copy_is_damaged(self, world, archive, objects, run, read, damage):
        before = read()
        store = objects.put

        def put(key, content):
            other = {"changed": content[:30] + b"!" + content[31:], "cut": content[:-5]}
            if damage != "missing":
                store(key, other[damage])

        objects.put = put
        world.advance(60 * DAY_S)
        counts = archive.run(within_s=1)
        assert counts["failures"] >= 2
        assert hot_runs(world) == 11
        assert read() == before
        objects.put = store
        assert archive.run(within_s=1)["failures"] == 0
        assert hot_runs(world) == 0

    @pytest.mark.parametrize("damage", ["missing", "changed"])
    def test_damaged_object_is_reported(self, world, archive, objects, run, ask, damage):
        world.advance(60 * DAY_S)
        archive.run(within_s=1)
        for key, content in list(objects.contents.items()):
            if damage == "missing":
                del objects.contents[key]
            else:
                objects.contents[key] = content[:30] + b"!" + content[31:]
        status, answer = ask("GET", f"/runs/{to_wire('run', run['run_id'])}")
        assert (status, answer["code"]) == (503, "JOB_503_ARCHIVE_DAMAGED")

    def test_change_while_copying_keeps_the_day(self, world, archive, objects, run, tenant):
        store = objects.put

        def put(key, content):
            store(key, content)
            if "job_run" in key:
                world.replay(tenant[0], run["run_id"])

        objects.put = put
        world.advance(60 * DAY_S)
        archive.run(within_s=1)
        assert hot_runs(world) == 11
        objects.put = store
        world.play(5)
        archive.run(within_s=1)
        archive.run(within_s=1)
        assert hot_runs(world) == 0


class TestBackfillOfArchivedDay:
    def test_archived_fires_are_not_accepted_again(self, world, archive, objects, ask, tenant):
        job = world.job(tenant, "0 */5 * * * ?")
        wanted = {"from": "2026-02-23T00:00:00Z", "to": "2026-02-23T06:00:00Z", "parallelism": 20}
        path = f"/jobs/{to_wire('job', job)}"
        assert ask("POST", f"{path}/backfill", wanted)[1]["acceptedRuns"] == 72
        world.play(40)
        world.advance(3 * DAY_S)
        archive.run(within_s=1)
        assert world.rows("SELECT 1 FROM job_run WHERE scheduled_at < '2026-02-24'") == []
        assert ask("POST", f"{path}/backfill", wanted)[1]["acceptedRuns"] == 0
        later = {**wanted, "to": "2026-02-23T07:00:00Z"}
        assert ask("POST", f"{path}/backfill", later)[1]["acceptedRuns"] == 12
        world.play(20)
        archive.run(within_s=1)
        query = {"from": wanted["from"], "to": later["to"]}
        _, answer = ask("GET", f"{path}/fires", query=query)
        assert [fire["outcome"] for fire in answer["items"]] == ["RUN"] * 84
