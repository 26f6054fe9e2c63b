"""The fake and PostgreSQL: one suite keeps the fake honest."""

from __future__ import annotations

import pytest

from tests.integration.push.desk import Desk, Fake, Postgres


@pytest.fixture(params=[Fake, Postgres], ids=["fake", "postgres"])
def make(request):
    database = request.getfixturevalue("service_database") if request.param is Postgres else None
    return lambda **options: Desk(request.param(database, **options))


@pytest.fixture
def desk(make):
    return make()
