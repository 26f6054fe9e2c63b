"""A step whose engine keeps failing: it stops, tasks wait or fail without a charge, and it starts again by itself."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from artiway import bootstrap
from artiway.audit.repository import AuditLog
from artiway.bootstrap.live_settings import service_setting_values
from artiway.circuits.model import Attempt, CircuitState, Rules, StepUnavailable
from artiway.circuits.repository import PostgresCircuits
from artiway.circuits.service import CircuitService
from artiway.circuits.settings import WAIT_S
from artiway.platform.database import Database
from artiway.settings.model import Fixed
from tests.integration.tasks.test_life import deliver_all, submit
from tests.simulation.world import POOL

RULES = Rules()


@pytest.fixture(params=["simple scheduler", "fair queue"])
def yard(world, request):
    """A world with four slots and a tenant that can pay."""
    if request.param == "fair queue":
        world.use_fair_queue()
    world.worker(slots=4)
    return world


def fail_all(world, *, code="ENGINE_FAILED", is_retryable=True):
    """Every node that a worker holds fails. Returns how many did."""
    ended = 0
    for worker in world.workers:
        for holding in list(worker.held):
            worker.held.remove(holding)
            error = {"code": code, "message": "out of order", "isRetryable": is_retryable}
            world.report(worker, holding, "failure", error=error)
            ended += 1
    deliver_all(world)
    return ended


def finish_all(world):
    for worker in world.workers:
        for holding in list(worker.held):
            world.finish(worker, holding)
    deliver_all(world)


def pass_time(world, seconds):
    """Workers go on to send heartbeats."""
    while seconds > 0:
        world.advance(min(20, seconds))
        world.beat()
        seconds -= 20
    world.sweep()
    deliver_all(world)


def circuit_of(world, step):
    stopped = bootstrap.circuits().stopped()
    circuit = stopped.of(POOL, step)
    return None if circuit is None else circuit.state(stopped.now)


def break_step(world, tenant, tool="style", *, most=20):
    """Tasks of a tool fail until its circuit opens. Returns the tasks and how many attempts failed."""
    tasks = [submit(world, tenant, tool) for _ in range(4)]
    deliver_all(world)
    failures = 0
    while circuit_of(world, tool) is None:
        failures += fail_all(world)
        assert failures <= most
        if circuit_of(world, tool) is None:
            pass_time(world, 10)
    return tasks, failures


def attempts(world, task):
    (row,) = world.rows("SELECT sum(attempt) AS attempts FROM task_node WHERE task_id = %s", task.task_id)
    return row["attempts"]


def test_failing_engine_stops_after_stated_attempts(yard):
    tenant = yard.tenant()
    tasks = [submit(yard, tenant, "style") for _ in range(2)]
    deliver_all(yard)
    counted = 0
    while circuit_of(yard, "style") is None:
        assert counted < RULES.failures
        worker = next(worker for worker in yard.workers if worker.held)
        yard.report(
            worker,
            worker.held.pop(),
            "failure",
            error={"code": "ENGINE_FAILED", "message": "out of order", "isRetryable": True},
        )
        deliver_all(yard)
        counted += 1
        if circuit_of(yard, "style") is None and not any(worker.held for worker in yard.workers):
            pass_time(yard, 10)
    assert counted == RULES.failures
    assert circuit_of(yard, "style") is CircuitState.OPEN
    fail_all(yard)
    before = [attempts(yard, task) for task in tasks]
    pass_time(yard, 10)
    assert not any(worker.held for worker in yard.workers)
    assert [attempts(yard, task) for task in tasks] == before
    yard.advance(60)
    yard.run_to_end()
    assert {yard.task_row(task.task_id)["status"] for task in tasks} == {"COMPLETED"}


def test_other_steps_and_tenants_go_on(yard):
    broken, other = yard.tenant(), yard.tenant()
    tasks, _ = break_step(yard, broken)
    well = [submit(yard, broken, "derive"), submit(yard, other, "scene"), submit(yard, other, "cutout")]
    deliver_all(yard)
    for _ in range(4):
        finish_all(yard)
    assert {yard.task_row(task.task_id)["status"] for task in well} == {"COMPLETED"}
    assert {yard.task_row(task.task_id)["status"] for task in tasks} <= {"QUEUED", "PROCESSING"}
    yard.advance(60)
    yard.run_to_end()


def test_one_probe_goes_and_closes_it(yard):
    tasks, _ = break_step(yard, yard.tenant())
    pass_time(yard, RULES.probe_s + 1)
    assert circuit_of(yard, "style") is CircuitState.HALF_OPEN
    assert sum(len(worker.held) for worker in yard.workers) == 1
    finish_all(yard)
    assert circuit_of(yard, "style") is None
    assert sum(len(worker.held) for worker in yard.workers) == 3
    yard.run_to_end()
    assert {yard.task_row(task.task_id)["status"] for task in tasks} == {"COMPLETED"}


def test_failed_probes_use_no_retries(yard):
    tasks, _ = break_step(yard, yard.tenant())
    for task in tasks:  # those that ran when the circuit opened have ended
        assert yard.task_row(task.task_id)["ended_at"] is None
    spent = yard.rows("SELECT sum(failures) AS failures FROM task_node")
    delay_s = RULES.probe_s
    for _ in range(5):
        pass_time(yard, delay_s + 1)
        assert fail_all(yard, code="ENGINE_NOT_INSTALLED", is_retryable=False) == 1
        assert circuit_of(yard, "style") is CircuitState.OPEN
        delay_s = min(2 * delay_s, RULES.probe_max_s)
    assert yard.rows("SELECT sum(failures) AS failures FROM task_node") == spent
    pass_time(yard, delay_s + 1)
    yard.run_to_end()
    assert {yard.task_row(task.task_id)["status"] for task in tasks} == {"COMPLETED"}


def test_long_wait_fails_clearly_and_uncharged(yard):
    tenant = yard.tenant(points=1_000)
    tasks, _ = break_step(yard, tenant)
    fail_all(yard)
    while any(yard.task_row(task.task_id)["ended_at"] is None for task in tasks):
        pass_time(yard, 200)
        fail_all(yard)
    for task in tasks:
        row = yard.task_row(task.task_id)
        assert (row["status"], row["charged_points"]) == ("FAILED", 0)
    codes = {yard.task_row(task.task_id)["error"]["code"] for task in tasks}
    assert "STEP_UNAVAILABLE" in codes
    assert codes <= {"STEP_UNAVAILABLE", "ENGINE_FAILED"}
    assert yard.balance(*tenant) == (1_000, 0)
    yard.run_to_end()


def test_waiting_time_is_a_live_setting(yard):
    service_setting_values.supply(Fixed({WAIT_S: 40}))
    tenant = yard.tenant(points=1_000)
    tasks, _ = break_step(yard, tenant)
    fail_all(yard)
    pass_time(yard, 30)
    assert not any(yard.task_row(task.task_id)["ended_at"] for task in tasks)
    for _ in range(2):
        fail_all(yard)
        pass_time(yard, 30)
    ended = [row for task in tasks if (row := yard.task_row(task.task_id))["ended_at"]]
    assert {row["error"]["code"] for row in ended} == {"STEP_UNAVAILABLE"}
    yard.advance(600)
    yard.run_to_end()


def test_long_stop_refuses_until_a_probe(yard):
    tenant = yard.tenant()
    break_step(yard, tenant)
    accepted = submit(yard, tenant, "style")  # a short stop: it waits
    deliver_all(yard)
    stopped_s = 0
    while stopped_s < RULES.refuse_after_s:
        pass_time(yard, 60)
        fail_all(yard)
        stopped_s += 60
    with pytest.raises(StepUnavailable) as refused:
        submit(yard, tenant, "style")
    assert 0 < refused.value.retry_after_s <= RULES.probe_max_s
    held = yard.balance(*tenant)
    assert submit(yard, tenant, "derive").task_id
    pass_time(yard, refused.value.retry_after_s + 1)
    probe = submit(yard, tenant, "style")
    assert yard.balance(*tenant)[1] > held[1]
    yard.run_to_end()
    for task in (accepted, probe):
        assert yard.task_row(task.task_id)["status"] == "COMPLETED"


def test_probe_without_waiting_nodes_closes_it(yard):
    tenant = yard.tenant()
    break_step(yard, tenant)
    while yard.live():
        pass_time(yard, 200)
        fail_all(yard)
    stopped = bootstrap.circuits().stopped()
    circuit = stopped.of(POOL, "style")
    assert circuit is not None
    pass_time(yard, circuit.probes_in_s(stopped.now) + 1)
    task = submit(yard, tenant, "style")
    yard.run_to_end()
    assert yard.task_row(task.task_id)["status"] == "COMPLETED"
    assert circuit_of(yard, "style") is None


def test_duplicate_reports_count_once(world):
    world.worker(slots=4)
    submit(world, world.tenant(), "style")
    deliver_all(world)
    (holding,) = world.workers[0].held
    for _ in range(10):
        world.report(
            world.workers[0],
            holding,
            "failure",
            error={"code": "ENGINE_FAILED", "message": "out of order", "isRetryable": True},
        )
    world.workers[0].held.clear()
    deliver_all(world)
    assert world.rows("SELECT failures FROM circuit") == [{"failures": 1}]
    world.run_to_end()
    assert world.rows("SELECT 1 FROM circuit") == []


@pytest.mark.parametrize("code", ["INPUT_UNDECODABLE", "STORE_UNAVAILABLE", "STEP_BAD_PARAMS"])
def test_failures_of_others_do_not_count(world, code):
    world.worker(slots=8)
    tenant = world.tenant()
    for _ in range(8):
        submit(world, tenant, "style")
    deliver_all(world)
    fail_all(world, code=code, is_retryable=False)
    assert world.rows("SELECT 1 FROM circuit") == []


def test_flushed_redis_leaves_it_open(world):
    world.use_fair_queue()
    world.worker(slots=4)
    tenant = world.tenant()
    tasks, _ = break_step(world, tenant)
    world.redis.flushall()
    world.sweep()
    deliver_all(world)
    assert bootstrap.fair_queues()(POOL).pool().steps == {"style": 0}
    assert not any(worker.held for worker in world.workers)
    assert circuit_of(world, "style") is CircuitState.OPEN
    world.advance(60)
    world.run_to_end()
    assert {world.task_row(task.task_id)["status"] for task in tasks} == {"COMPLETED"}


def test_why_and_estimate_name_the_stop(world):
    world.use_fair_queue()
    world.worker(slots=4)
    tenant = world.tenant()
    (task, *_), _ = break_step(world, tenant)
    fail_all(world)
    waiting = submit(world, tenant, "style")
    deliver_all(world)
    (reason,) = bootstrap.why().explain(tenant_id=tenant[0], task_id=waiting.task_id).reasons
    assert (reason.waiting_for, reason.eta_s) == ("circuit_open", None)
    assert reason.detail.startswith("its step fails at present and is stopped")
    assert "tried again in" in reason.detail
    estimate = world.tasks.estimate(
        tenant_id=tenant[0], tool="style", inputs={"product": task.task_id}, params={}, count=1
    )
    assert estimate.timing.start_s is None
    assert "the step style fails at present" in estimate.timing.detail
    assert "tried again in" in estimate.timing.detail
    world.redis.flushall()  # PostgreSQL alone gives the same reason
    (reason,) = bootstrap.why().explain(tenant_id=tenant[0], task_id=waiting.task_id).reasons
    assert reason.waiting_for == "circuit_open"
    world.advance(60)
    world.run_to_end()


def test_opening_and_closing_are_audited(world):
    world.worker(slots=4)
    break_step(world, world.tenant())
    world.advance(60)
    world.run_to_end()
    rows = world.rows("SELECT action, target, details FROM audit_log WHERE action LIKE 'circuit.%%' ORDER BY at")
    assert [(row["action"], row["target"]) for row in rows] == [
        ("circuit.opened", "gpu/style"),
        ("circuit.closed", "gpu/style"),
    ]
    assert rows[0]["details"] == {"failures": RULES.failures, "lastError": "ENGINE_FAILED"}


def test_attempts_at_once_open_it_once(addresses, service_database):
    """Twenty failures in parallel transactions: one opening, no lost count."""
    sent = datetime.now(UTC) - timedelta(seconds=5)

    def fail(_: int) -> None:
        database = Database(addresses.service)
        try:
            store = PostgresCircuits(database, AuditLog())
            service = CircuitService(store, lambda: Rules(failures=20), mirror=lambda pool: None)
            service.record([Attempt("gpu", "scene", sent, "ENGINE_FAILED")])
        finally:
            database.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(fail, range(25)))
    with service_database.service_transaction() as tx:
        (row,) = tx.all(b"SELECT failures, opened_at IS NOT NULL AS is_open FROM circuit")
        audited = tx.all(b"SELECT action FROM audit_log")
    assert row == {"failures": 20, "is_open": True}
    assert audited == [{"action": "circuit.opened"}]
