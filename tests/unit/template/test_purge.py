"""Idempotency keys leave the database as fast as they can come in."""

from __future__ import annotations

from artiway.idempotency.model import KEEP_HOURS
from artiway.platform.settings import Settings
from artiway.retention.rules import RULES
from tests.unit.template.facts import Template


def test_the_purge_keeps_up_with_the_api(template: Template) -> None:
    """One key for each request that API Gateway lets in, a minute's worth in each pass of the retention."""
    keys_per_minute = 60 * int(template.body["Parameters"]["ApiRateLimit"]["Default"])
    (keys,) = (rule for rule in RULES if rule.name == "idempotency_keys")
    assert keys.batch * Settings().retention_batches >= keys_per_minute
    rules = [rule for rule in template.of_type("AWS::Events::Rule").values() if "Purge" in rule.get("Description", "")]
    assert [rule["ScheduleExpression"] for rule in rules] == ["rate(1 minute)"]


def test_keys_per_tenant_follow_its_request_rate() -> None:
    """The figures of docs/limits.md: requests a second, for as long as a key is kept."""
    kept_s = KEEP_HOURS * 3_600
    assert {rate: rate * kept_s for rate in (100, 50, 20, 5)} == {
        100: 8_640_000,
        50: 4_320_000,
        20: 1_728_000,
        5: 432_000,
    }
