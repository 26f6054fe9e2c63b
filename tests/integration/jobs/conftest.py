from __future__ import annotations

import contextlib
import json

import psycopg
import pytest
import redis

from artiway import bootstrap, ids
from artiway.jobs.chains.repository import PredecessorRows
from artiway.jobs.definitions.service import JobService
from artiway.jobs.definitions.submissions import SubmissionCheck
from tests.integration.jobs.desk import ReversedBox, Uploads
from tests.integration.payments.environment import http_event, load_function
from tests.simulation.jobs_world import JobsWorld
from tests.simulation.seeded import Simulation, make_simulated


@pytest.fixture(scope="session")
def jobs_addresses(make_addresses):
    """A database whose time the tests set."""
    addresses = make_addresses("jobs", template="template0")
    make_simulated(addresses)
    with psycopg.connect(addresses.superuser) as connection:  # backfills go back to these days
        connection.execute(
            "SELECT job_partition_ensure(date '2026-02-18' + number) FROM generate_series(0, 10) AS number"
        )
    return addresses


@pytest.fixture(scope="session")
def jobs_simulation(jobs_addresses, valkey_url):
    with (
        redis.Redis.from_url(valkey_url, decode_responses=True) as client,
        contextlib.closing(Simulation(jobs_addresses, client)) as simulation,
    ):
        yield simulation


@pytest.fixture(scope="session")
def open_world(jobs_simulation):
    """Opens jobs in an empty database, at noon. Its counters must agree with its runs at the end."""

    @contextlib.contextmanager
    def opened(**options):
        jobs_simulation._clear()
        world = JobsWorld(jobs_simulation, jobs_simulation.redis, seed=1, **options)
        with ids.drawn_from(world.draw_id):
            yield world
        assert world.loads() == world.counted_runs()
        world.close()

    return opened


@pytest.fixture
def world(open_world):
    with open_world() as world:
        yield world


@pytest.fixture
def make_ask(world):
    """Requests to the function of jobs as a user of a tenant, without KMS and without a name server."""
    module = load_function("jobs")
    check = SubmissionCheck(
        bootstrap.live_catalogue(), Uploads(), refusal_of=lambda _: None, check_calls=lambda *_: None
    )
    values = bootstrap.setting_values()
    bootstrap.jobs.supply(
        JobService(
            bootstrap.definitions(),
            bootstrap.fire_ahead(),
            check,
            ReversedBox(),
            values,
            PredecessorRows(),
            refusal_of=lambda _: None,
        )
    )

    def make(tenant, may="job.read job.ops job.run job.write task.submit"):
        def ask(method, target, body=None, *, query=None):
            identity = json.dumps({"tenantId": str(tenant[0]), "userId": str(tenant[1]), "permissions": may})
            headers = {"x-identity": identity, "content-type": "application/json"}
            content = b"" if body is None else json.dumps(body).encode()
            event = http_event(method, f"/api/v1{target}", headers, content, set(module.api.rules))
            event["queryStringParameters"] = {name: str(value) for name, value in (query or {}).items()}
            event["rawQueryString"] = "&".join(f"{name}={value}" for name, value in (query or {}).items())
            answer = module.handler(event, None)
            return answer["statusCode"], json.loads(answer["body"] or "null")

        return ask

    return make
