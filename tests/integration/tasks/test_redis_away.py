"""Reports and forecasts while the real Valkey is stopped: an answer of PostgreSQL, or 503."""

from __future__ import annotations

import contextlib
from uuid import uuid4

import pytest

from artiway import bootstrap
from artiway.errors import Unavailable
from artiway.platform import redis as platform_redis
from local.servers import free_port, running, start_valkey
from tests.integration.tasks.test_life import deliver_all, submit
from tests.simulation.world import POOL, World


@pytest.fixture
def stopped(addresses, tmp_path):
    """A world in which two nodes wait behind a running one, and Redis has ended."""
    with (
        running(start_valkey(tmp_path, free_port(), is_durable=False)) as server,
        contextlib.closing(platform_redis.connect(server.url, timeout_s=1)) as client,
    ):
        world = World(addresses, client)
        world.use_fair_queue()
        tenant = world.tenant()
        world.worker(slots=1)
        tasks = [submit(world, tenant, "style") for _ in range(3)]
        deliver_all(world)
        server.process.kill()
        server.process.wait()
        yield world, tenant, tasks
        world.close()


def test_why_answers_from_the_database(stopped):
    _, tenant, tasks = stopped
    found = [
        (reason.waiting_for, reason.position, reason.eta_s is not None)
        for task in tasks
        for reason in bootstrap.why().explain(tenant_id=tenant[0], task_id=task.task_id).reasons
    ]
    assert sorted(found) == [("none", 0, True), ("turn", 0, True), ("turn", 1, True)]


def test_estimate_answers_from_the_database(stopped):
    world, tenant, _ = stopped
    found = world.tasks.estimate(
        tenant_id=tenant[0], tool="style", inputs={"product": uuid4()}, params={}, count=None
    ).timing
    assert found.start_s is not None
    assert found.end_s is not None
    assert 0 < found.start_s < found.end_s


def test_submission_is_accepted_with_a_promise(stopped):
    world, tenant, _ = stopped
    task = submit(world, tenant, "style")
    assert world.task_row(task.task_id)["eta_s"] > 0


@pytest.mark.parametrize(
    "report",
    [
        lambda: bootstrap.operations().pools(),
        lambda: bootstrap.operations().fairness(pool=POOL, window_s=300),
    ],
    ids=["scheduler", "fairness"],
)
@pytest.mark.usefixtures("stopped")
def test_report_answers_or_is_unavailable(report):
    try:
        assert report()
    except Unavailable as error:
        assert (error.status, error.code) == (503, "PLATFORM_503_REDIS")  # noqa: PT017 (an answer is right as well)
