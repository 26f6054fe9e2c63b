"""Several processes at once on one database: one run per time, one start per attempt, exact limits, one end."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from datetime import timedelta

import pytest

from artiway.jobs.control import RunControl
from artiway.jobs.dispatch import DispatchService
from artiway.jobs.messages import Outcome, Result
from artiway.jobs.repository import PostgresRuns
from artiway.jobs.results import ResultService
from artiway.jobs.trigger import FireAhead, TriggerService
from artiway.outbox.repository import Outbox
from artiway.settings.model import Defaults
from tests.fakes.clock import NOON
from tests.simulation.seeded import SimulatedDatabase


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
        self.fires, self.control = (
            FireAhead(PostgresRuns(self.app, outbox), Defaults()),
            RunControl(PostgresRuns(self.app, outbox)),
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
        lambda: _edit(processes[1], world, tenant[0], job),
        processes[2].trigger.run_pass,
    )
    left = world.runs(job)
    started = [run for run in left if run["state"] == "RUNNING"]
    assert [run["scheduled_at"] for run in started] in ([], [NOON + timedelta(seconds=10)])
    (row,) = world.rows("SELECT * FROM job WHERE job_id = %s", job)
    later = [run["scheduled_at"] for run in left if run["scheduled_at"] > world.now]
    assert all(at.second % 20 == 0 for at in later)
    assert row["next_fire_at"] > max(later)


def _edit(process, world, tenant_id, job):
    before, world.database, world.fires = (world.database, world.fires), process.app, process.fires
    try:
        world.edit(tenant_id, job, expr="*/20 * * * * ?")
    finally:
        world.database, world.fires = before


def test_run_of_unknown_id_is_ignored(world, processes):
    tenant = world.tenant("vip")
    result = Result(tenant[0], tenant[1], 1, 1, Outcome.SUCCEEDED, world.now)
    assert processes[0].results.apply([result]) == 0
    assert processes[0].dispatch.admit([tenant[1]]) == 0
