"""Random requests made from the OpenAPI document: no server error, no answer that the document does not know."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.conftest import soaked
from tests.e2e.attacks import DOCUMENT, Operation, operations
from tests.e2e.conftest import Platform
from tests.e2e.people import Client

EXAMPLES = soaked(10)
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
# Asked with an administrator's token; other routes of the platform would pause lanes that other tests use.
ADMIN_PATHS = ("/api/v1/tenants", "/api/v1/ops/reconciliations", "/api/v1/ops/audit", "/api/v1/ops/health")


@pytest.fixture(scope="module")
def tokens(platform: Platform) -> Iterator[dict[str, str]]:
    client = Client(platform.facts["apiUrl"])
    admin = client.log_in(**platform.facts["admin"])["token"]
    owner = client.register("fuzzed")
    client.call("PATCH", f"/tenants/{owner['tenantId']}", {"ratePerSecond": 10_000}, token=admin)
    yield {"admin": admin, "owner": owner["token"], "leaving": client.register("leaving")["token"]}
    client.close()
    with psycopg.connect(platform.facts["databaseUrl"]) as connection:
        # The guesses came from this machine; the tests after us log in from it.
        connection.execute("DELETE FROM login_failure")


@pytest.mark.soak
@pytest.mark.parametrize("operation", operations(), ids=str)
def test_every_answer_is_one_that_document_knows(platform: Platform, tokens: dict[str, str], operation: Operation):
    endpoint = SCHEMA[operation.path][operation.method]
    user = "leaving" if operation.path.endswith("/logout") else "owner"
    token = tokens["admin" if operation.path.startswith(ADMIN_PATHS) else user]
    base_url = platform.facts["apiUrl"].removesuffix("/api/v1")

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=endpoint.as_strategy())
    def check(case: schemathesis.Case) -> None:
        case.call_and_validate(base_url=base_url, headers={"Authorization": f"Bearer {token}"}, checks=CHECKS)

    check()
