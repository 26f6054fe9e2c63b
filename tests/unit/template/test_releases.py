"""Releases of the API functions: versions behind an alias, moved by CodeDeploy, stopped by alarms."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from artiway.platform import metrics
from local import template as local_template
from local.template import references
from tests.unit.template.facts import ROOT, Template, metrics_of, target

CANARY_S = 300
CALLERS = ("AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Integration", "AWS::ApiGateway::RestApi")
ONE, OTHER = "1111111111-first", "2222222222-second"


@pytest.fixture(scope="module")
def packaged() -> dict[str, Any]:
    """The root stack as `sam deploy` packages it."""
    return local_template.read(ROOT / "template.yaml")


def versions(packaged: dict[str, Any], **parameters: str) -> dict[str, str]:
    """Function -> logical id of its version. CloudFormation publishes a version for each id that it does not know."""
    expanded = Template(local_template.translate(packaged, parameters))
    return {target(one["FunctionName"]): name for name, one in expanded.of_type("AWS::Lambda::Version").items()}


@pytest.fixture(scope="module")
def unnamed(packaged: dict[str, Any]) -> dict[str, str]:
    return versions(packaged, Release="")


@pytest.fixture(scope="module")
def first(packaged: dict[str, Any]) -> dict[str, str]:
    return versions(packaged, Release=ONE)


@pytest.fixture(scope="module")
def api(root: Template) -> set[str]:
    """The functions that API Gateway calls."""
    named = {name for kind in CALLERS for name, _ in references(list(root.of_type(kind).values()))}
    called = {root.function_of({"Ref": name}) for name in named if name in root.resources}
    return called & root.functions.keys()


def test_another_release_publishes_every_api_function(
    packaged: dict[str, Any], first: dict[str, str], api: set[str]
) -> None:
    second = versions(packaged, Release=OTHER)
    assert first.keys() == second.keys() == api
    assert set(first.values()).isdisjoint(second.values())


def test_the_same_release_publishes_nothing(packaged: dict[str, Any], first: dict[str, str]) -> None:
    assert versions(packaged, Release=ONE) == first


def test_without_a_release_versions_follow_the_layers(packaged: dict[str, Any], unnamed: dict[str, str]) -> None:
    for layer in ("CoreLayer", "DependenciesLayer"):
        changed = copy.deepcopy(packaged)
        changed["Resources"][layer]["Properties"]["ContentUri"] = {"Bucket": "local", "Key": "another"}
        assert set(versions(changed, Release="").values()).isdisjoint(unnamed.values()), layer
    assert versions(packaged, Release="") == unnamed


def test_without_a_release_versions_follow_properties(packaged: dict[str, Any], unnamed: dict[str, str]) -> None:
    changed = copy.deepcopy(packaged)
    changed["Resources"]["TasksFunction"]["Properties"]["MemorySize"] = 3008
    after = versions(changed, Release="")
    assert [name for name in unnamed if unnamed[name] != after[name]] == ["TasksFunction"]


def test_api_gateway_calls_functions_through_their_aliases(root: Template, api: set[str]) -> None:
    aliases = {n: one for n, one in root.of_type("AWS::Lambda::Alias").items() if one["Name"] == "live"}
    assert {target(alias["FunctionName"]) for alias in aliases.values()} == api
    for kind in CALLERS:
        named = {name for name, _ in references(list(root.of_type(kind).values()))}
        assert named & root.functions.keys() == set(), "a call that does not pass the alias"
    permissions = root.of_type("AWS::Lambda::Permission").values()
    admitted = {target(p["FunctionName"]) for p in permissions if p["Principal"] == "apigateway.amazonaws.com"}
    assert admitted == aliases.keys()


def test_other_events_use_the_alias_too(root: Template, api: set[str]) -> None:
    for kind in ("AWS::Lambda::EventSourceMapping", "AWS::Events::Rule"):
        named = {name for name, _ in references(list(root.of_type(kind).values()))}
        assert named & api == set(), kind


def test_the_error_alarms_stop_every_deployment(root: Template, api: set[str]) -> None:
    groups = root.of_type("AWS::CodeDeploy::DeploymentGroup")
    alarms = root.of_type("AWS::CloudWatch::Alarm")
    for function in api:
        group = groups[f"{function}DeploymentGroup"]
        assert "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]
        named = [one["Name"] for one in group["AlarmConfiguration"]["Alarms"]]
        watching = [
            name
            for name, alarm in alarms.items()
            if {"Ref": name} in named
            and any(dimensions.get("FunctionName") == {"Ref": function} for _, _, dimensions in metrics_of(alarm))
        ]
        assert watching, f"no alarm of {function}'s errors stops its deployment"
        assert alarms["ServerErrorsAlarm"]["AlarmName"] in named, function


def test_an_alarm_fires_before_the_canary_ends(root: Template) -> None:
    groups = root.of_type("AWS::CodeDeploy::DeploymentGroup").values()
    named = [one["Name"] for group in groups for one in group["AlarmConfiguration"]["Alarms"]]
    stopping = {
        name: alarm
        for name, alarm in root.of_type("AWS::CloudWatch::Alarm").items()
        if {"Ref": name} in named or alarm.get("AlarmName") in named
    }
    assert {"ApiErrorsAlarm", "PaymentErrorsAlarm", "ServerErrorsAlarm"} <= stopping.keys()
    for name, alarm in stopping.items():
        stats = [one["MetricStat"] for one in alarm.get("Metrics", []) if "MetricStat" in one] or [alarm]
        needed = alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"])
        assert max(one["Period"] for one in stats) * needed < CANARY_S / 2, name


def test_deployments_follow_the_parameter(packaged: dict[str, Any]) -> None:
    expanded = Template(local_template.translate(packaged, {"DeploymentPreference": "Canary10Percent5Minutes"}))
    for name, group in expanded.of_type("AWS::CodeDeploy::DeploymentGroup").items():
        assert "Canary10Percent5Minutes" in json.dumps(group["DeploymentConfigName"]), name


def test_snapshots_are_made_of_published_versions_only(root: Template, api: set[str]) -> None:
    asked = {name: function["SnapStart"] for name, function in root.functions.items() if "SnapStart" in function}
    assert asked.keys() == api
    assert list(asked.values()) == [{"ApplyOn": {"Fn::If": ["SnapStart", "PublishedVersions", "None"]}}] * len(api)


def test_without_alarms_only_essential_metrics_are_written(template: Template) -> None:
    """Scaling and the alarms that are always there need metrics, also where the others are left out."""
    for name in template.functions:
        assert template.variables_of(name)["ARTIWAY_METRICS"] == {"Fn::If": ["Alarmed", "all", "essential"]}
    alarms = template.of_type("AWS::CloudWatch::Alarm").items()
    kept = [one for name, one in alarms if "Alarmed" not in str(template.resources[name].get("Condition", ""))]
    needed = {metric for alarm in kept for namespace, metric, _ in metrics_of(alarm) if namespace == metrics.NAMESPACE}
    for policy in template.of_type("AWS::ApplicationAutoScaling::ScalingPolicy").values():
        tracked = policy.get("TargetTrackingScalingPolicyConfiguration", {}).get("CustomizedMetricSpecification", {})
        stats = [one["MetricStat"]["Metric"] for one in tracked.get("Metrics", []) if "MetricStat" in one]
        needed |= {metric["MetricName"] for metric in stats if metric["Namespace"] == metrics.NAMESPACE}
    assert needed == metrics.ESSENTIAL


def test_a_budget_notifies_the_alarm_topic(template: Template) -> None:
    budget = template.of_type("AWS::Budgets::Budget")["Budget"]
    kinds = {one["Notification"]["NotificationType"] for one in budget["NotificationsWithSubscribers"]}
    assert kinds == {"ACTUAL", "FORECASTED"}
    addresses = [one["Address"] for each in budget["NotificationsWithSubscribers"] for one in each["Subscribers"]]
    assert addresses == [{"Ref": "AlarmTopic"}] * 2
    senders = [json.dumps(template.resources[name]) for name in ("AlarmTopicPolicy", "DataKey")]
    assert all("budgets.amazonaws.com" in sender for sender in senders), "the topic or its key refuses the budget"
