"""Scheduled jobs in the template: the caller is alone, the lanes are separate, the numbers agree."""

from __future__ import annotations

import json

from artiway.jobs.caller import PARALLEL_CALLS
from artiway.jobs.messages import CALLS, CALLS_PER_MESSAGE, RESULTS, SUBMISSIONS
from artiway.jobs.model import RUN_LANES
from artiway.tasks.messages import PROGRESS
from tests.unit.template.facts import Template, many, target
from tests.unit.template.resolve import NO_VALUE, Resolver


def test_caller_has_no_way_to_private_servers(template: Template) -> None:
    caller = template.functions["CallerFunction"]
    assert Resolver(template.body)(caller["VpcConfig"]) is NO_VALUE
    variables = template.variables_of("CallerFunction")
    assert not [name for name in variables if "DATABASE" in name or "REDIS" in name or "SECRET" in name]
    assert list(json.loads(variables["ARTIWAY_QUEUES"]["Fn::Sub"])) == [RESULTS, PROGRESS]
    inside = {name for name, one in template.functions.items() if "SubnetIds" in one.get("VpcConfig", {})}
    assert set(template.functions) - inside == {"CallerFunction"}


def test_caller_may_decrypt_and_send_results_only(template: Template) -> None:
    granted = {
        action: {target(resource) for resource in many(one["Resource"])}
        for one in template.granted("CallerFunction")
        for action in many(one["Action"])
    }
    assert granted == {
        "sqs:ReceiveMessage": {"RunsCallQueue"},
        "sqs:DeleteMessage": {"RunsCallQueue"},
        "sqs:GetQueueAttributes": {"RunsCallQueue"},
        "sqs:SendMessage": {"RunsResultQueue", "ProgressQueue"},
        "kms:Decrypt": {"RunsKey"},
    }
    (decrypt,) = (one for one in template.granted("CallerFunction") if one["Action"] == "kms:Decrypt")
    assert decrypt["Condition"] == {"Null": {"kms:EncryptionContext:tenantId": "false"}}


def test_only_the_caller_decrypts_secrets_of_jobs(template: Template) -> None:
    readers = {
        name
        for name in template.functions
        for one in template.granted(name)
        if "kms:Decrypt" in many(one["Action"]) and "RunsKey" in json.dumps(one["Resource"])
    }
    assert readers == {"CallerFunction"}


def test_each_lane_of_runs_is_a_queue(template: Template) -> None:
    queues = json.loads(template.of_type("AWS::SSM::Parameter")["Queues"]["Value"]["Fn::Sub"])
    runs = {destination: queue for destination, queue in queues.items() if destination.startswith("run_")}
    assert runs.keys() == {*RUN_LANES, CALLS, RESULTS, SUBMISSIONS}
    assert len(set(runs.values())) == len(runs)


def test_calls_of_a_batch_fit_the_threads(template: Template) -> None:
    (source,) = (
        one
        for one in template.of_type("AWS::Lambda::EventSourceMapping").values()
        if target(one["EventSourceArn"]) == "RunsCallQueue"
    )
    assert source["BatchSize"] * CALLS_PER_MESSAGE <= PARALLEL_CALLS
