"""The numbers of webhooks agree: batch, time-out, consumers, and the minute that all due deliveries may take."""

from __future__ import annotations

import math

from artiway.delivery.webhooks.service import PARALLEL_SENDS, SEND_LEASE_S
from artiway.platform.settings import Settings
from local.lambdas import DEFAULT_SANDBOXES
from tests.unit.template.facts import Template, target

DUE = 500
LIMIT_S = 60
BATCH_S = 20  # the whole time-out, though a call takes less than half of it


def test_deliveries_to_dead_targets_take_under_a_minute(template: Template) -> None:
    (source,) = [
        source
        for source in template.of_type("AWS::Lambda::EventSourceMapping").values()
        if target(source["EventSourceArn"]) == "WebhookQueue"
    ]
    function = template.functions["WebhooksFunction"]
    settings = Settings()
    assert source["BatchSize"] <= PARALLEL_SENDS
    assert settings.webhook_timeout_s * 2 < function["Timeout"] < SEND_LEASE_S
    # Every batch has a dead target; one machine runs fewer consumers than AWS.
    consumers = min(source["ScalingConfig"]["MaximumConcurrency"], DEFAULT_SANDBOXES)
    assert math.ceil(DUE / source["BatchSize"] / consumers) * BATCH_S < LIMIT_S
    assert settings.watchdog_batch >= DUE


def test_functions_that_take_urls_know_the_allowed_targets(template: Template) -> None:
    knowing = {name for name in template.functions if "ARTIWAY_ALLOWED_TARGETS" in template.variables_of(name)}
    taking = {"WebhooksFunction", "TasksFunction", "JobsFunction", "CallerFunction", "DispatchFunction"}
    assert knowing == taking
