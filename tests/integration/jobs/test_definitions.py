"""Definitions of jobs on a real database: what is stored, refused, retracted, and who sees it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from artiway import ids
from artiway.delivery.uploads.model import NoSuchInput
from artiway.errors import ArtiwayError, NotAllowed, NotFound, Refused
from artiway.idempotency.repository import PostgresKeys
from artiway.idempotency.service import IdempotencyService
from artiway.jobs.cron import InvalidSchedule
from artiway.jobs.definitions.model import InvalidFile, ScheduleShape, TooManyJobs, shape_of
from artiway.jobs.messages import CALLS
from artiway.jobs.model import InvalidJob, JobConflict, JobPriority, JobStatus, NoSuchJob, TenantThrottled
from artiway.jobs.settings import PER_TENANT
from artiway.jobs.trigger import WARM_S
from artiway.platform.database import Database
from artiway.tasks.model import InvalidRequest
from tests.integration.jobs.desk import EVERY_5_MINUTES, HTTP, JOB, Desk, opened

EVERY_SECOND = {"type": "CRON", "expr": "* * * * * ?"}
FAR = "2035-01-01T00:00:00Z"


@pytest.fixture
def desk(addresses):
    with opened(addresses) as desk:
        yield desk


@pytest.fixture
def actor(desk):
    return desk.tenant()


class TestCreation:
    def test_example_of_specification_is_accepted(self, desk: Desk):
        actor = desk.tenant("free")
        view = desk.create(
            actor,
            name="coupon-expire-check",
            retryPolicy={"maxAttempts": 5, "baseDelayMs": 1000},
            concurrencyLimit=20,
        )
        definition = view.job.definition
        assert (view.job.status, len(view.next_fires)) == (JobStatus.ACTIVE, 5)
        assert all(fire.at.minute % 5 == 0 and fire.at.second == 0 for fire in view.next_fires)
        assert (definition.retry.max_attempts, definition.retry.base_delay_ms) == (5, 1000)
        assert (definition.retry.max_delay_ms, definition.concurrency_limit) == (300_000, 20)
        assert (definition.priority, definition.catchup_window_s, definition.timeout_s) == (JobPriority.LOW, 300, 30)
        assert desk.jobs.job(actor.tenant_id, view.job.job_id).job.definition == definition
        assert desk.actions(actor) == ["job.create"]

    def test_job_that_is_due_soon_has_its_run(self, desk: Desk, actor):
        at = desk.now() + timedelta(seconds=20)
        view = desk.create(actor, schedule={"type": "ONCE", "at": at.isoformat()})
        (run,) = desk.runs_of(view)
        assert (run["scheduled_at"], run["state"]) == (at, "PENDING")
        assert view.job.status is JobStatus.ACTIVE
        assert [fire.at for fire in view.next_fires] == [at]
        # The message of the run, and before it those that start a dispatcher and a caller.
        early = at - timedelta(seconds=WARM_S)
        assert [(envelope.destination, envelope.due_at) for envelope in desk.sent] == [
            (run["lane"], at),
            (run["lane"], early),
            (CALLS, early),
        ]

    def test_first_call_job_shows_signing_secret_once(self, desk: Desk, actor):
        first, second = desk.create(actor), desk.create(actor)
        assert str(first.signing_secret).startswith("whsec_")
        assert second.signing_secret is None
        (row,) = desk.sql("SELECT ciphertext FROM job_signing_key")
        tenant, name, value = bytes(row["ciphertext"]).decode().split("|")
        assert (tenant, name, value[::-1]) == (str(actor.tenant_id), "signing-key", first.signing_secret)

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"schedule": {"type": "CRON", "expr": "0 0 31 2 *"}}, "schedule.expr"),
            ({"schedule": {"type": "CRON", "expr": "0 0 15W * ?"}}, "schedule.expr"),
            ({"schedule": {"type": "CRON", "expr": "* * *"}}, "schedule.expr"),
            ({"schedule": {"type": "CRON", "expr": "0 0 0 1 1 ? 2020"}}, "schedule.expr"),
            ({"schedule": {**EVERY_5_MINUTES, "timezone": "Mars/Base"}}, "schedule.timezone"),
            ({"schedule": {"type": "CRON"}}, "schedule.expr"),
            ({"schedule": {**EVERY_5_MINUTES, "at": FAR}}, "schedule.at"),
            ({"schedule": {"type": "ONCE"}}, "schedule.at"),
            ({"schedule": {"type": "ONCE", "at": "2020-01-01T00:00:00Z"}}, "schedule.at"),
            ({"schedule": {"type": "ONCE", "at": FAR}, "endsAt": "2034-01-01T00:00:00Z"}, "endsAt"),
            ({"schedule": {"type": "AFTER", "after": ["job_1"]}}, "schedule.after"),
            ({"startsAt": FAR, "endsAt": FAR}, "endsAt"),
            ({"endsAt": "2020-01-01T00:00:00Z"}, "endsAt"),
            ({"task": {**HTTP, "url": "http://169.254.169.254/latest"}}, "task.url"),
            ({"task": {**HTTP, "url": "http://localhost:8000/"}}, "task.url"),
            ({"task": {**HTTP, "headers": {"X-Key": "secret:UNKNOWN"}}}, "task"),
            ({"task": {**HTTP, "body": {"key": "secret:UNKNOWN"}}}, "task"),
            ({"task": {**HTTP, "headers": {"Host": "x"}}}, "task.headers.Host"),
            ({"task": {**HTTP, "headers": {"A": "1", "a": "2"}}}, "task.headers"),
            ({"task": {**HTTP, "method": "GET", "body": "x"}}, "task.body"),
            ({"task": {**HTTP, "body": "x" * 65_537}}, "task.body"),
            ({"task": {**HTTP, "timeoutSeconds": 10}, "timeoutSeconds": 20}, "timeoutSeconds"),
            ({"timeoutSeconds": 61}, "timeoutSeconds"),
            ({"retryPolicy": {"baseDelayMs": 2, "maxDelayMs": 1}}, "retryPolicy.baseDelayMs"),
        ],
        ids=str,
    )
    def test_refused_job_leaves_nothing_behind(self, desk: Desk, actor, fields: dict[str, Any], field: str):
        with pytest.raises(Refused) as refused:
            desk.create(actor, **fields)
        assert refused.value.status == 422
        assert refused.value.message.startswith(f"{field}:")
        assert [desk.count(table) for table in ("job", "job_run", "job_signing_key", "audit_log")] == [0, 0, 0, 0]

    @pytest.mark.parametrize(
        ("tier", "expr", "is_accepted"),
        [
            ("enterprise", "* * * * * ?", True),
            ("vip", "*/10 * * * * ?", True),
            ("vip", "*/9 * * * * ?", False),
            ("standard", "0 * * * * ?", True),
            ("standard", "*/30 * * * * ?", False),
            ("free", "* * * * *", True),
            ("free", "0,59 * * * * ?", False),
        ],
    )
    def test_shortest_period_is_of_the_tier(self, desk: Desk, tier: str, expr: str, is_accepted: bool):
        actor, schedule = desk.tenant(tier), {"type": "CRON", "expr": expr}
        if is_accepted:
            desk.create(actor, schedule=schedule)
        else:
            with pytest.raises(InvalidSchedule, match="shortest period"):
                desk.create(actor, schedule=schedule)

    def test_tenant_overrides_its_tier(self, desk: Desk):
        desk.create(desk.tenant("free", job_period_s=1), schedule=EVERY_SECOND)
        with pytest.raises(InvalidSchedule):
            desk.create(desk.tenant("enterprise", job_period_s=3600))

    def test_priority_above_tier_is_refused(self, desk: Desk):
        actor = desk.tenant("standard")
        assert desk.create(actor).job.definition.priority is JobPriority.NORMAL
        assert desk.create(actor, priority="LOW").job.definition.priority is JobPriority.LOW
        with pytest.raises(InvalidJob, match="tier allows NORMAL"):
            desk.create(actor, priority="HIGH")

    def test_number_of_jobs_is_limited(self, addresses):
        with opened(addresses, {PER_TENANT: 2}) as desk:
            actor = desk.tenant()
            first = desk.create(actor)
            desk.create(actor)
            with pytest.raises(TooManyJobs):
                desk.create(actor)
            desk.jobs.delete(actor, first.job.job_id)
            desk.create(actor)
            desk.create(desk.tenant())

    def test_task_is_checked_as_submission(self, desk: Desk, actor):
        known = ids.new_id()
        desk.uploads.known.add((actor.tenant_id, known))
        task = {"type": "TASK", "tool": "cutout", "inputs": {"product": ids.to_wire("inp", known)}}
        made = desk.create(actor, task=task)
        assert made.job.definition.task["tool"] == "cutout"
        assert made.signing_secret is None
        for change, error in (
            ({"tool": "no-such-tool"}, InvalidRequest),
            ({"params": {"no": "such"}}, InvalidRequest),
            ({"inputs": {}}, InvalidRequest),
            ({"webhookUrl": "http://10.0.0.1/"}, InvalidRequest),
        ):
            with pytest.raises(error):
                desk.create(actor, task={**task, **change})
        with pytest.raises(NoSuchInput):
            desk.create(desk.tenant(), task=task)
        with pytest.raises(NotFound):
            desk.create(actor, task={**task, "inputs": {"product": "inp_x"}})
        assert desk.count("job") == 1

    def test_task_job_needs_right_to_submit(self, desk: Desk, actor):
        task = {"type": "FLOW", "nodes": [{"name": "a", "tool": "cutout"}]}
        with pytest.raises(NotAllowed):
            desk.create(replace(actor, may_submit=False), task=task)

    def test_administrator_creates_for_owner_of_tenant(self, desk: Desk, actor):
        admin = replace(actor, user_id=ids.new_id(), is_member=False)
        with pytest.raises(InvalidJob, match="no owner"):
            desk.create(admin)
        desk.sql(
            "INSERT INTO user_role (tenant_id, user_id, role) VALUES (%s, %s, 'owner')", actor.tenant_id, actor.user_id
        )
        assert desk.create(admin).job.user_id == actor.user_id

    def test_one_key_creates_one_job(self, desk: Desk, actor, addresses):
        """Ten requests with one key at the same time: one job, and no second answer with another id."""
        barrier, made = threading.Barrier(10), []

        def send(_: int) -> str:
            with opened(addresses) as own:
                keys = IdempotencyService(PostgresKeys(own.database))
                barrier.wait()
                try:
                    return keys.run(
                        tenant_id=actor.tenant_id,
                        user_id=actor.user_id,
                        key="k",
                        request_hash="h",
                        perform=lambda: (201, str(own.create(actor).job.job_id)),
                    )[1]
                except ArtiwayError as error:
                    made.append(error.code)
                    return ""

        with ThreadPoolExecutor(10) as pool:
            answers = {answer for answer in pool.map(send, range(10)) if answer}
        assert len(answers) == desk.count("job") == 1
        assert set(made) <= {"IDEM_409_IN_PROGRESS"}


class TestIsolation:
    def test_other_tenant_finds_nothing(self, desk: Desk, actor):
        view, other = desk.create(actor), desk.tenant()
        job_id = view.job.job_id
        run_id = desk.jobs.trigger(actor, job_id)
        for attempt in (
            lambda: desk.jobs.job(other.tenant_id, job_id),
            lambda: desk.jobs.update(other, job_id, {"name": "x"}),
            lambda: desk.jobs.pause(other, job_id, None),
            lambda: desk.jobs.resume(other, job_id, None),
            lambda: desk.jobs.trigger(other, job_id),
            lambda: desk.jobs.delete(other, job_id),
            lambda: desk.jobs.apply(other, [{"jobId": ids.to_wire("job", job_id), **JOB}], is_dry_run=False),
            lambda: desk.runs.run(other.tenant_id, run_id),
            lambda: desk.runs.logs(other.tenant_id, run_id, after=None, limit=1),
            lambda: desk.runs.terminate(other.tenant_id, run_id, actor_id=other.user_id),
            lambda: desk.runs.replay(other.tenant_id, run_id, actor_id=other.user_id),
        ):
            with pytest.raises(NotFound):
                attempt()
        assert desk.jobs.jobs(other.tenant_id, status=None, name=None, before=None, limit=10) == []
        assert desk.jobs.job(actor.tenant_id, job_id).job.version == 1
        assert desk.actions(other) == []

    def test_secret_of_other_tenant_is_unknown(self, desk: Desk, actor):
        desk.secrets.put(actor.tenant_id, "TOKEN", "value", actor_id=actor.user_id)
        task = {**HTTP, "headers": {"Authorization": "Bearer secret:TOKEN"}}
        desk.create(actor, task=task)
        with pytest.raises(InvalidJob, match="no secret TOKEN"):
            desk.create(desk.tenant(), task=task)


class TestChanges:
    def test_given_fields_are_merged(self, desk: Desk, actor):
        view = desk.create(actor, task={**HTTP, "headers": {"A": "1"}}, retryPolicy={"maxAttempts": 7})
        changed = desk.jobs.update(
            actor,
            view.job.job_id,
            {
                "name": "renamed",
                "schedule": {"timezone": "Asia/Shanghai"},
                "task": {"url": "https://example.org/other"},
                "retryPolicy": {"baseDelayMs": 5},
            },
        )
        before, after = view.job.definition, changed.job.definition
        assert (after.name, after.schedule.expr, after.schedule.timezone) == (
            "renamed",
            before.schedule.expr,
            "Asia/Shanghai",
        )
        assert after.task == {**before.task, "url": "https://example.org/other"}
        assert (after.retry.max_attempts, after.retry.base_delay_ms) == (7, 5)
        assert changed.job.version == 2
        assert desk.jobs.job(actor.tenant_id, view.job.job_id).job.definition == after

    def test_null_restores_default(self, desk: Desk, actor):
        view = desk.create(actor, concurrencyLimit=3, endsAt=FAR, task={**HTTP, "headers": {"A": "1"}})
        changed = desk.jobs.update(
            actor, view.job.job_id, {"concurrencyLimit": None, "endsAt": None, "task": {"headers": None}}
        )
        definition = changed.job.definition
        assert (definition.concurrency_limit, definition.schedule.ends_at) == (10, None)
        assert "headers" not in definition.task

    def test_window_and_time_limit_follow_change(self, desk: Desk, actor):
        view = desk.create(actor, task={**HTTP, "timeoutSeconds": 9})
        changed = desk.jobs.update(actor, view.job.job_id, {"schedule": {"expr": "0 0 * * * ?"}})
        assert (changed.job.definition.catchup_window_s, changed.job.definition.timeout_s) == (3600, 9)
        changed = desk.jobs.update(actor, view.job.job_id, {"timeoutSeconds": 8})
        assert changed.job.definition.timeout_s == 8
        changed = desk.jobs.update(actor, view.job.job_id, {"task": {"timeoutSeconds": 7}})
        assert changed.job.definition.timeout_s == 7

    def test_refused_change_changes_nothing(self, desk: Desk, actor):
        view = desk.create(actor)
        for change in ({"schedule": {"expr": "bad"}}, {"task": {"url": "http://127.0.0.1/"}}, {"schedule": {"x": 1}}):
            with pytest.raises(Refused):
                desk.jobs.update(actor, view.job.job_id, change)
        assert desk.jobs.job(actor.tenant_id, view.job.job_id).job == view.job

    def test_same_values_make_no_version(self, desk: Desk, actor):
        view = desk.create(actor)
        assert desk.jobs.update(actor, view.job.job_id, {"name": "a job"}).job.version == 1
        assert desk.actions(actor) == ["job.create"]

    def test_edit_moves_runs_that_were_ahead(self, desk: Desk, actor):
        """A fire of both schedules comes once; one that only the earlier schedule had is gone."""
        view = desk.create(actor, schedule=EVERY_SECOND)
        before = desk.runs_of(view)
        assert len(before) > 80
        desk.jobs.update(actor, view.job.job_id, {"schedule": {"expr": "*/2 * * * * ?"}})
        now = desk.now()
        after = desk.runs_of(view)
        ahead = [run["scheduled_at"] for run in after if run["scheduled_at"] > now + timedelta(seconds=1)]
        assert all(at.second % 2 == 0 for at in ahead)
        assert len(ahead) >= 40
        assert len({run["scheduled_at"] for run in after}) == len(after)
        assert {run["job_version"] for run in after if run["scheduled_at"] in ahead} == {2}

    def test_fire_at_time_of_edit_comes_once(self, desk: Desk, actor, addresses):
        """Fifty edits while a job fires every second: each second has one run, and none is missing."""
        view = desk.create(actor, schedule=EVERY_SECOND)
        start = desk.now()
        for number in range(50):
            desk.jobs.update(actor, view.job.job_id, {"name": f"name {number}"})
        times = [run["scheduled_at"] for run in desk.runs_of(view) if run["scheduled_at"] > start]
        assert times == [times[0] + timedelta(seconds=place) for place in range(len(times))]

    def test_pause_retracts_and_resume_brings_back(self, desk: Desk, actor):
        view = desk.create(actor, schedule=EVERY_SECOND)
        paused = desk.jobs.pause(actor, view.job.job_id, "month end")
        now = desk.now()
        assert [run for run in desk.runs_of(view) if run["scheduled_at"] > now] == []
        assert (paused.job.status, paused.job.note, paused.job.paused_by) == (
            JobStatus.PAUSED,
            "month end",
            actor.user_id,
        )
        assert (paused.next_fires, paused.job.next_fire_at) == ([], None)
        resumed = desk.jobs.resume(actor, view.job.job_id, None)
        assert (resumed.job.status, resumed.job.paused_by, len(resumed.next_fires)) == (JobStatus.ACTIVE, None, 5)
        assert len([run for run in desk.runs_of(view) if run["scheduled_at"] > now]) > 80
        assert desk.actions(actor) == ["job.create", "job.pause", "job.resume"]
        rows = desk.sql("SELECT version, action FROM job_change ORDER BY version")
        assert [(row["version"], row["action"]) for row in rows] == [(1, "created"), (2, "paused"), (3, "resumed")]

    def test_paused_fire_in_its_jitter_is_noted(self, desk: Desk, actor):
        """Its nominal time is over and its place in the jitter is not: a pause cancels it, and a note says so."""
        view = desk.create(actor, schedule={**EVERY_SECOND, "jitterSeconds": 86_400})
        first = desk.runs_of(view)[0]
        desk.sql("SELECT pg_sleep(greatest(0, extract(epoch FROM %s - clock_timestamp())))", first["scheduled_at"])
        desk.jobs.pause(actor, view.job.job_id, None)
        notes = desk.sql("SELECT outcome, reason, first_at FROM job_fire_note")
        assert [(note["outcome"], note["first_at"]) for note in notes] == [("CANCELLED_BY_EDIT", first["scheduled_at"])]
        assert notes[0]["reason"] == f"paused by usr_{actor.user_id.hex}"

    def test_change_of_paused_job_keeps_it_paused(self, desk: Desk, actor):
        view = desk.create(actor, schedule=EVERY_SECOND)
        desk.jobs.pause(actor, view.job.job_id, None)
        changed = desk.jobs.update(actor, view.job.job_id, {"name": "other"})
        now = desk.now()
        assert changed.job.status is JobStatus.PAUSED
        assert [run for run in desk.runs_of(view) if run["scheduled_at"] > now] == []

    def test_deleted_job_keeps_its_runs(self, desk: Desk, actor):
        view = desk.create(actor)
        run_id = desk.jobs.trigger(actor, view.job.job_id)
        desk.jobs.delete(actor, view.job.job_id)
        with pytest.raises(NoSuchJob):
            desk.jobs.job(actor.tenant_id, view.job.job_id)
        assert desk.runs.run(actor.tenant_id, run_id).job_id == view.job.job_id
        desk.runs.terminate(actor.tenant_id, run_id, actor_id=actor.user_id)
        with pytest.raises(JobConflict, match="was deleted"):
            desk.runs.replay(actor.tenant_id, run_id, actor_id=actor.user_id)

    def test_completed_job_can_be_scheduled_again(self, desk: Desk, actor):
        view = desk.create(actor, schedule={"type": "ONCE", "at": FAR})
        desk.sql("UPDATE job SET status = 'COMPLETED', next_fire_at = NULL, at = '2020-01-01T00:00:00Z'")
        with pytest.raises(JobConflict):
            desk.jobs.pause(actor, view.job.job_id, None)
        assert desk.jobs.update(actor, view.job.job_id, {"name": "x"}).job.status is JobStatus.COMPLETED
        again = desk.jobs.update(actor, view.job.job_id, {"schedule": {"at": FAR}})
        assert (again.job.status, again.next_fires[0].at) == (JobStatus.ACTIVE, datetime(2035, 1, 1, tzinfo=UTC))


class TestTrigger:
    def test_trigger_makes_run_that_is_due_now(self, desk: Desk, actor):
        view = desk.create(actor, schedule={"type": "ONCE", "at": FAR})
        run_id = desk.jobs.trigger(actor, view.job.job_id)
        run = desk.runs.run(actor.tenant_id, run_id)
        assert (run.kind, run.state, run.due_at) == ("MANUAL", "PENDING", run.scheduled_at)
        assert desk.actions(actor) == ["job.create", "job.trigger"]

    def test_trigger_over_rate_is_refused(self, desk: Desk):
        actor = desk.tenant(job_per_minute=2)
        view = desk.create(actor, schedule={"type": "ONCE", "at": FAR})
        started, refusals = 0, []
        for _ in range(6):  # a new minute may begin once while this runs
            try:
                desk.jobs.trigger(actor, view.job.job_id)
                started += 1
            except TenantThrottled as error:
                refusals.append(error)
        assert 2 <= started <= 4
        assert {error.code for error in refusals} == {"SCHED_429_TENANT_THROTTLED"}
        assert all(1 <= error.retry_after_s <= 60 for error in refusals)
        assert len(desk.runs_of(view)) == started


class TestPreview:
    def test_next_fires_show_change_of_offset(self, desk: Desk, actor):
        shape = ScheduleShape(type="CRON", expr="0 30 2 * * ? 2035", timezone="America/New_York")
        found = desk.jobs.preview(actor.tenant_id, shape, starts_at=datetime(2035, 3, 10, tzinfo=UTC), ends_at=None)
        assert [(fire.local, fire.offset) for fire in found.next_fires[:3]] == [
            ("2035-03-10T02:30:00", "-05:00"),
            ("2035-03-11T03:00:00", "-04:00"),
            ("2035-03-12T02:30:00", "-04:00"),
        ]
        assert "America/New_York" in found.description["en"]
        assert found.description["zh"] != found.description["en"]
        assert desk.count("job") == 0


class TestFiles:
    def test_export_and_import_change_nothing(self, desk: Desk, actor):
        desk.create(actor, name="one", task={**HTTP, "body": {"a": [1, None]}, "headers": {"A": "*"}})
        desk.create(actor, name="two", schedule={"type": "ONCE", "at": FAR})
        for is_yaml, media_type in ((False, "application/json"), (True, "application/yaml")):
            file = desk.jobs.export(actor.tenant_id, before=None, limit=500, is_yaml=is_yaml)
            report = desk.jobs.apply_file(actor, file.text.encode(), media_type, is_dry_run=False)
            assert [one.action for one in report.jobs] == ["unchanged", "unchanged"]
        assert {row["version"] for row in desk.sql("SELECT version FROM job")} == {1}

    def test_dry_run_shows_changes_and_stores_nothing(self, desk: Desk, actor):
        view = desk.create(actor, name="known")
        text = """
        dryRun: true
        jobs:
          - name: known
            schedule: {type: CRON, expr: "0 0 * * * ?"}
            task: {type: HTTP, url: "https://example.com/hook"}
          - name: new
            schedule: {type: CRON, expr: "*/10 * * * *"}
            task: {type: HTTP, url: "https://example.com/new"}
        """
        dry = desk.jobs.apply_file(actor, text.encode(), "application/yaml", is_dry_run=None)
        assert [(one.action, one.job_id) for one in dry.jobs] == [("update", view.job.job_id), ("create", None)]
        assert {(it.field, it.before, it.after) for it in dry.jobs[0].changes} >= {
            ("schedule.expr", "0 */5 * * * ?", "0 0 * * * ?")
        }
        assert desk.count("job") == 1
        assert desk.jobs.job(actor.tenant_id, view.job.job_id).job == view.job
        done = desk.jobs.apply_file(actor, text.encode(), "application/yaml", is_dry_run=False)
        assert [one.action for one in done.jobs] == ["update", "create"]
        assert desk.count("job") == 2
        assert desk.jobs.job(actor.tenant_id, view.job.job_id).job.definition.schedule.expr == "0 0 * * * ?"

    def test_import_stores_all_jobs_or_none(self, desk: Desk, actor):
        bad = {**JOB, "name": "bad", "schedule": {"type": "CRON", "expr": "0 0 31 2 *"}}
        with pytest.raises(InvalidSchedule):
            desk.jobs.apply(actor, [{**JOB, "name": "good"}, bad], is_dry_run=False)
        assert [desk.count(table) for table in ("job", "job_change", "audit_log", "job_signing_key")] == [0, 0, 0, 0]

    def test_ambiguous_names_are_refused(self, desk: Desk, actor):
        first = desk.create(actor)
        desk.create(actor)
        with pytest.raises(InvalidFile, match="several jobs"):
            desk.jobs.apply(actor, [JOB], is_dry_run=True)
        with pytest.raises(InvalidFile, match="twice"):
            desk.jobs.apply(actor, [{**JOB, "name": "x"}, {**JOB, "name": "x"}], is_dry_run=True)
        document = {"jobId": ids.to_wire("job", first.job.job_id), **JOB, "name": "renamed"}
        report = desk.jobs.apply(actor, [document], is_dry_run=False)
        assert [(it.field, it.after) for it in report.jobs[0].changes] == [("name", "renamed")]

    def test_unknown_id_is_not_found(self, desk: Desk, actor):
        with pytest.raises(NoSuchJob):
            desk.jobs.apply(actor, [{"jobId": ids.to_wire("job", ids.new_id()), **JOB}], is_dry_run=False)


def test_shape_names_the_field_that_is_wrong():
    with pytest.raises(InvalidJob) as refused:
        shape_of({**JOB, "concurrencyLimit": "5"})
    assert refused.value.details["fields"][0]["field"] == "concurrencyLimit"


def test_lists_go_by_page(desk: Desk, actor, database: Database):
    views = [desk.create(actor, name=f"job {number}") for number in range(5)]
    found, before = [], None
    while page := desk.jobs.jobs(actor.tenant_id, status=None, name=None, before=before, limit=2):
        found += [view.job.job_id for view in page]
        before = found[-1]
    assert found == [view.job.job_id for view in reversed(views)]
    named = desk.jobs.jobs(actor.tenant_id, status=JobStatus.ACTIVE, name="job 3", before=None, limit=9)
    assert [view.job.job_id for view in named] == [views[3].job.job_id]
