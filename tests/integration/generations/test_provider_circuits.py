"""Providers and their circuits in PostgreSQL: one that fails is passed over until its probe succeeds."""

from __future__ import annotations

import pytest

from artiway.audit.repository import AuditLog
from artiway.circuits.model import Rules
from artiway.circuits.repository import PostgresCircuits
from artiway.circuits.service import CircuitService
from artiway.generations.providers.model import (
    Chosen,
    FailureCode,
    Limits,
    Message,
    Prompt,
    ProviderFailed,
    Role,
    Target,
)
from artiway.generations.providers.outbound import ChatProvider
from artiway.generations.providers.quota import RedisQuota
from artiway.generations.providers.router import POOL, ProviderRouter
from artiway.generations.providers.routes import Routes
from artiway.platform.outbound import Client
from local.text_standin import TextStandin

PROMPT = Prompt((Message(Role.USER, "a dress"),), max_tokens=4)
LIMITS = Limits(first_byte_s=20, total_s=60)


@pytest.fixture
def standin():
    with TextStandin() as server:
        yield server


@pytest.fixture
def circuits(service_database):
    rules = Rules(failures=2, probe_s=3_600, probe_max_s=3_600)
    return CircuitService(PostgresCircuits(service_database, AuditLog()), lambda: rules, mirror=lambda _pool: None)


@pytest.fixture
def router(standin, circuits, valkey):
    client = Client(allowed=frozenset({("127.0.0.1", standin.port)}))
    return ProviderRouter(lambda: Routes((), {}), ChatProvider(lambda: client), circuits, RedisQuota(valkey))


def asked(router, *targets):
    """The providers that were called, and how it ended."""
    called = []
    try:
        items = router.stream(targets, PROMPT, LIMITS, lambda: False)
        called.extend(item.target.provider for item in items if isinstance(item, Chosen))
    except ProviderFailed as error:
        return called, error.code
    return called, "done"


def probe_is_due(database):
    with database.service_transaction() as tx:
        tx.run("UPDATE circuit SET probe_at = clock_timestamp() - interval '1 second'")


def test_failing_provider_is_passed_over_until_its_probe(router, circuits, standin, service_database):
    broken, spare = (Target(name, standin.base_url, model) for name, model in (("a", "status_500"), ("b", "healthy")))
    healed = Target("a", standin.base_url, "healthy")
    assert [asked(router, broken, spare) for _ in range(3)] == [
        (["a", "b"], "done"),
        (["a", "b"], "done"),
        (["b"], "done"),
    ]
    assert asked(router, broken) == ([], FailureCode.AWAY)
    assert [(one.pool, one.step, one.last_error) for one in circuits.stopped().circuits] == [
        (POOL, "a", FailureCode.ERROR)
    ]
    probe_is_due(service_database)
    assert asked(router, healed, spare) == (["a"], "done")
    assert circuits.stopped().circuits == ()
