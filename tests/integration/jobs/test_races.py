"""Several processes at once on one database: one run per time, one start per attempt, exact limits, one end."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace

import pytest

from artiway import bootstrap
from artiway.audit.repository import AuditLog
from artiway.bootstrap.live_settings import service_setting_values, setting_values
from artiway.bootstrap.tasks import drafts, durations
from artiway.jobs.chains.repository import PredecessorRows
from artiway.jobs.control import RunControl
from artiway.jobs.definitions.repository import PostgresDefinitions
from artiway.jobs.definitions.service import JobService
from artiway.jobs.definitions.submissions import SubmissionCheck
from artiway.jobs.dispatch import DispatchService
from artiway.jobs.messages import Outcome, Result
from artiway.jobs.repository import PostgresRuns
from artiway.jobs.results import ResultService
from artiway.jobs.trigger import FireAhead, TriggerService
from artiway.outbox.repository import Outbox
from artiway.settings.model import Defaults
from artiway.tasks import catalogue
from tests.fakes.clock import NOON
from tests.simulation.jobs_story import PICTURE
from tests.simulation.jobs_world import NoCipher
from tests.simulation.seeded import SimulatedDatabase
from tests.simulation.world import Pictures, flow


class Process:
    """The services of one process, with connections of its own. `sent` are the messages that it published."""

    def __init__(self, addresses, world):
        self.database, self.app = SimulatedDatabase(addresses.service), SimulatedDatabase(addresses.app)
        for database in (self.database, self.app):
            database.clock, database.chaos = world.clock, world.chaos
        self.sent = []
        outbox = Outbox(lambda _, envelopes: self.sent.extend(envelopes), world.clock)
        store = PostgresRuns(self.database, outbox)
        self.dispatch = DispatchService(store, Defaults(), pause=lambda _: None)
        self.trigger = TriggerService(store, Defaults(), wake=self.dispatch.wake)
        self.results = ResultService(store, self.dispatch, jitter=lambda: 0.0)
        runs = PostgresRuns(self.app, outbox)
        self.fires, self.control = FireAhead(runs, Defaults()), RunControl(runs)
        self.definitions = JobService(
            PostgresDefinitions(self.app, AuditLog(), Defaults()),
            self.fires,
            SubmissionCheck(catalogue.load(), Pictures(), refusal_of=lambda _: None, check_calls=lambda *_: None),
            NoCipher(),
            Defaults(),
            PredecessorRows(),
            refusal_of=lambda _: None,
        )

    def close(self):
        self.database.close()
        self.app.close()


@pytest.fixture
def processes(jobs_addresses, world):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(Process(jobs_addresses, world))) for _ in range(4)]


def at_once(*actions):
    """Run the actions in threads that begin together. Raises what one of them raised."""
    barrier, failures = threading.Barrier(len(actions)), []

    def run(action):
        barrier.wait()
        try:
            action()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def hinted(processes, lane="run_"):
    bodies = [json.loads(one.body) for process in processes for one in process.sent if one.destination.startswith(lane)]
    return [run_id for body in bodies if body["type"] == "runs_due" for run_id in body["data"]["runIds"]]


def due_runs(world, count, **job):
    """Runs that are due now, each of a job of its own."""
    tenant = world.tenant("vip", **job.pop("tenant", {}))
    jobs = [world.job(tenant, None, at=NOON + timedelta(seconds=1), **job) for _ in range(count)]
    world.network.messages.clear()
    world.advance(2)
    return tenant, [run["run_id"] for run in world.runs() if run["job_id"] in jobs]


def test_triggers_at_once_share_the_jobs(world, processes):
    tenant = world.tenant("enterprise")
    for _ in range(300):
        world.job(tenant, "*/30 * * * * ?", is_stored_only=True)
    at_once(*(process.trigger.run_pass for process in processes))
    runs = world.runs()
    assert Counter(run["scheduled_at"] for run in runs) == {NOON + timedelta(seconds=30 * n): 300 for n in (1, 2, 3)}
    assert sorted(hinted(processes)) == sorted(str(run["run_id"]) for run in runs)


def test_dispatchers_at_once_start_each_run_once(world, processes):
    _, run_ids = due_runs(world, 40)
    at_once(*(lambda process=process: process.dispatch.admit(run_ids) for process in processes))
    runs = world.runs()
    assert {(run["state"], run["attempt"]) for run in runs} == {("RUNNING", 1)}
    calls = [one for process in processes for one in process.sent if one.destination == "run_calls"]
    assert len(calls) == 4


def test_quota_holds_for_dispatchers_at_once(world, processes):
    _, run_ids = due_runs(world, 40, tenant={"job_concurrency": 7, "job_per_minute": 30})
    at_once(*(lambda at=at: processes[at].dispatch.admit(run_ids[at::4]) for at in range(4)))
    states = Counter((run["state"], run["defer_reason"]) for run in world.runs())
    assert states == {("RUNNING", None): 7, ("PENDING", "tenant_quota"): 33}


def test_rate_holds_for_dispatchers_at_once(world, processes):
    _, run_ids = due_runs(world, 40, tenant={"job_per_minute": 12})
    at_once(*(lambda at=at: processes[at].dispatch.admit(run_ids[at::4]) for at in range(4)))
    states = Counter((run["state"], run["defer_reason"]) for run in world.runs())
    assert states == {("RUNNING", None): 12, ("PENDING", "tenant_rate"): 28}
    assert len({run["due_at"] for run in world.runs() if run["state"] == "PENDING"}) == 28


def test_overlap_is_exact_for_dispatchers_at_once(world, processes):
    tenant = world.tenant("enterprise")
    job = world.job(tenant, "* * * * * ?", overlap_policy="BUFFER_ALL")
    world.network.messages.clear()
    world.advance(8)
    run_ids = [run["run_id"] for run in world.runs(job) if run["due_at"] <= world.now]
    at_once(*(lambda at=at: processes[at].dispatch.admit(run_ids[at::4]) for at in range(4)))
    assert sum(run["state"] == "RUNNING" for run in world.runs(job)) == 1


@pytest.mark.parametrize("turn", range(5))
def test_result_and_termination_end_a_run_once(world, processes, turn):
    tenant, run_ids = due_runs(world, 6)
    processes[0].dispatch.admit(run_ids)
    results = [Result(tenant[0], run_id, 1, 1, Outcome.SUCCEEDED, world.now) for run_id in run_ids]

    def terminate():
        with processes[1].app.tenant_transaction(tenant[0]) as tx:
            ended.update(processes[1].control.terminate(tx, run_ids, reason="on request"))

    ended = set()
    at_once(lambda: processes[2].results.apply(results), terminate, lambda: processes[3].results.apply(results))
    states = {run["run_id"]: run["state"] for run in world.runs()}
    assert {run_id for run_id, state in states.items() if state == "TERMINATED"} == ended
    assert set(states.values()) <= {"SUCCESS", "TERMINATED"}
    assert len(world.rows("SELECT 1 FROM run_result")) == sum(state == "SUCCESS" for state in states.values())


def test_failed_result_twice_makes_one_retry(world, processes):
    tenant, run_ids = due_runs(world, 5)
    processes[0].dispatch.admit(run_ids)
    results = [Result(tenant[0], run_id, 1, 1, Outcome.FAILED, world.now) for run_id in run_ids]
    at_once(*(lambda process=process: process.results.apply(results) for process in processes))
    assert {(run["state"], run["attempt"]) for run in world.runs()} == {("RETRYING", 1)}
    assert sorted(hinted(processes[1:])) == sorted(map(str, run_ids)) or len(hinted(processes)) == 5
    assert len(world.rows("SELECT 1 FROM run_result")) == 5
    assert world.rows("SELECT 1 FROM run_log WHERE message LIKE 'late%%'") == []


@pytest.mark.parametrize("turn", range(5))
def test_edit_at_fire_time_leaves_whole_runs(world, processes, turn):
    tenant = world.tenant("vip")
    job = world.job(tenant, "*/10 * * * * ?")
    world.network.messages.clear()
    world.advance(9.9995)
    runs = [run["run_id"] for run in world.runs(job)]
    world.advance(0.0005)

    at_once(
        lambda: processes[0].dispatch.admit(runs),
        lambda: processes[1].definitions.update(world.actor(tenant[0]), job, {"schedule": {"expr": "*/20 * * * * ?"}}),
        processes[2].trigger.run_pass,
    )
    left = world.runs(job)
    started = [run for run in left if run["state"] == "RUNNING"]
    assert [run["scheduled_at"] for run in started] in ([], [NOON + timedelta(seconds=10)])
    (row,) = world.rows("SELECT * FROM job WHERE job_id = %s", job)
    later = [run["scheduled_at"] for run in left if run["scheduled_at"] > world.now]
    assert all(at.second % 20 == 0 for at in later)
    assert row["next_fire_at"] > max(later)


class NoScheduler:
    """Places of the fair queue are no part of these races."""

    def release(self, *_):
        return None


def services_of(process, world):
    """The services of tasks and submissions on the connections of a process."""
    before, settings = (world.database, world.service_database), bootstrap.settings()
    world.database, world.service_database = process.app, process.database
    world._replace_outside(settings)
    world.database, world.service_database = before
    setting_values.supply(Defaults())
    service_setting_values.supply(Defaults())
    bootstrap.scheduler.supply(NoScheduler())
    measured = durations().of("gpu")
    # Two providers are asked when a task is submitted, and would use the connections of the last process.
    durations.supply(SimpleNamespace(of=lambda _: measured))
    drafts.supply(SimpleNamespace(priced=lambda plan, _: plan))
    return bootstrap.tasks(), bootstrap.submissions()


class TestSubmissions:
    """Four processes submit the same at once: one task, one hold."""

    @pytest.fixture
    def services(self, world, processes):
        return [services_of(process, world) for process in processes]

    @pytest.mark.parametrize("turn", range(3))
    def test_one_run_submits_one_task(self, world, services, turn):
        tenant = world.tenant("vip", points=1_000)
        task = {"tool": "derive", "inputs": {"product": PICTURE}, "count": 1}
        job = world.job(tenant, None, at=NOON + timedelta(seconds=1), task_type="TASK", task=task, timeout_s=300)
        world.advance(1)
        (run,) = world.runs(job)
        assert world.dispatch.admit([run["run_id"]]) == 1
        at_once(
            *(
                lambda one=one: one.submit(tenant_id=tenant[0], run_id=run["run_id"], generation=1, attempt=1)
                for _, one in services
            )
        )
        (stored,) = world.rows("SELECT task_id, submission_key FROM task")
        assert stored["submission_key"] == f"run:{run['run_id'].hex}:1"
        assert [one["task_id"] for one in world.runs(job)] == [stored["task_id"]]
        self.check_one_hold(world, tenant)

    @pytest.mark.parametrize("turn", range(3))
    def test_one_key_submits_one_task(self, world, services, turn):
        tenant_id, user_id = tenant = world.tenant("vip", points=1_000)
        accepted = []

        def submit(tasks):
            found = tasks.submit_flow(
                tenant_id=tenant_id,
                user_id=user_id,
                name="",
                nodes=flow("a"),
                webhook_url=None,
                submission_key="import:7",
            )
            accepted.append(found.task.task_id)

        at_once(*(lambda tasks=tasks: submit(tasks) for tasks, _ in services))
        assert [task["task_id"] for task in world.rows("SELECT task_id FROM task")] == [accepted[0]]
        assert accepted == [accepted[0]] * 4
        self.check_one_hold(world, tenant)

    @staticmethod
    def check_one_hold(world, tenant):
        (task,) = world.rows("SELECT task_id, price_points FROM task")
        (hold,) = world.rows("SELECT hold_id FROM points_hold")
        assert hold["hold_id"] == task["task_id"]
        assert world.balance(*tenant) == (1_000 - task["price_points"], task["price_points"])


def test_run_of_unknown_id_is_ignored(world, processes):
    tenant = world.tenant("vip")
    result = Result(tenant[0], tenant[1], 1, 1, Outcome.SUCCEEDED, world.now)
    assert processes[0].results.apply([result]) == 0
    assert processes[0].dispatch.admit([tenant[1]]) == 0
