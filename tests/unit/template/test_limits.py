"""AWS accepts the template, and each check that says so finds the fault that it is for."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable

import pytest

from local import template as local_template
from tests.unit.template import limits
from tests.unit.template.facts import ROOT, Json, Template
from tests.unit.template.limits import CHECKS, Check, Deployment
from tests.unit.template.rendering import Rendering

LONGEST_ENVIRONMENT = "e" * 16  # what the parameter accepts


def longest_stack_name() -> str:
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())
    names = [
        part.get("global", {}).get("parameters", {}).get("stack_name", "")
        for part in config.values()
        if isinstance(part, dict)
    ]
    return max(names, key=len)


def deployment_of(template: Template, stacks: dict[str, Json]) -> Deployment:
    rendering = Rendering(template, stack=longest_stack_name(), parameters={"Environment": LONGEST_ENVIRONMENT})
    return Deployment(template, stacks, rendering)


@pytest.fixture(scope="module")
def deployment(template: Template, root: Template) -> Deployment:
    nested = {f"stacks/{file.name}": local_template.read(file) for file in sorted((ROOT / "stacks").glob("*.yaml"))}
    return deployment_of(template, {"template.yaml": root.body, **nested})


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_aws_accepts_the_template(deployment: Deployment, check: Check) -> None:
    assert list(check(deployment)) == []


def test_longest_names_come_from_the_settings(deployment: Deployment) -> None:
    assert longest_stack_name().startswith("artiway-")
    assert "-EnterpriseWorkers-" in deployment.rendering.made("EnterpriseWorkersTaskRole")


def test_every_nested_template_is_deployed(root: Template) -> None:
    stacks = root.of_type("AWS::CloudFormation::Stack").values()
    used = [stack["TemplateURL"] for stack in stacks]
    files = {f"stacks/{file.name}" for file in (ROOT / "stacks").glob("*.yaml")}
    assert set(used) == files - {"stacks/replica.yaml"}, "replica.yaml is a stack of the second region"
    assert used.count("stacks/workers.yaml") == 2


def properties(body: Json, name: str) -> Json:
    found: Json = body["Resources"][name]["Properties"]
    return found


def many_resources(body: Json) -> None:
    body["Resources"] |= {f"Topic{number}": {"Type": "AWS::SNS::Topic"} for number in range(300)}


def addresses_instead_of_names(body: Json) -> None:
    """As it was: the address of each queue in the map, and again for the dead letters."""
    queues = [name for name, one in body["Resources"].items() if one["Type"] == "AWS::SQS::Queue"]
    text = ",".join(f'"{name}":"${{{name}}}"' for name in queues)
    properties(body, "OpsFunction")["Environment"]["Variables"]["ARTIWAY_QUEUES"] = {"Fn::Sub": f"{{{text}}}"}


def long_policy(body: Json) -> None:
    statement = properties(body, "SendPolicy")["PolicyDocument"]["Statement"][0]
    statement["Resource"] = statement["Resource"] * 6


def long_inline_policy(body: Json) -> None:
    document = {"Statement": [{"Resource": [{"Fn::GetAtt": ["PushQueue", "Arn"]}] * 200}]}
    properties(body, "PushRole")["Policies"].append({"PolicyName": "more", "PolicyDocument": document})


def many_permissions(body: Json) -> None:
    (first, *_) = [one for one in body["Resources"].values() if one["Type"] == "AWS::Lambda::Permission"]
    body["Resources"] |= {f"Permission{number}": first for number in range(60)}


def protected_by_name(body: Json) -> None:
    properties(body, "WorkerRepository")["RepositoryName"] = "artiway-worker"


def kept_after_a_failed_create(body: Json) -> None:
    body["Resources"]["PushQueue"]["DeletionPolicy"] = "Retain"


def retained_nested_stack(body: Json) -> None:
    body["Resources"]["Data"]["DeletionPolicy"] = "Retain"


def misspelt_error(body: Json) -> None:
    lines = properties(body, "TaskDagStateMachine")["DefinitionString"]["Fn::Join"][1]
    lines[:] = [line.replace("SQS.AmazonSQSException", "SQS.SqsException") for line in lines]


def early_dead_letters(body: Json) -> None:
    properties(body, "PushDeadLetterQueue")["MessageRetentionPeriod"] = 3_600


def setting(name: str, key: str, value: object) -> Callable[[Json], None]:
    def change(body: Json) -> None:
        properties(body, name)[key] = value

    return change


def first_source(key: str, value: object) -> Callable[[Json], None]:
    def change(body: Json) -> None:
        source = next(one for one in body["Resources"].values() if one["Type"] == "AWS::Lambda::EventSourceMapping")
        source["Properties"][key] = value

    return change


METRIC = {"MetricStat": {"Metric": {"Namespace": "n", "MetricName": "m"}, "Period": 60}, "ReturnData": False}
# Faults of the whole platform, and after that of the root stack alone.
FAULTS: list[tuple[Check, Callable[[Json], None]]] = [
    (limits.environments_fit, addresses_instead_of_names),
    (limits.functions_are_accepted, setting("HealthFunction", "Layers", ["layer"] * 6)),
    (limits.functions_are_accepted, setting("HealthFunction", "Description", "d" * 257)),
    (limits.functions_are_accepted, setting("HealthFunction", "Timeout", 901)),
    (limits.roles_have_room, setting("PushRole", "ManagedPolicyArns", ["policy"] * 9)),
    (limits.roles_have_room, long_policy),
    (limits.roles_have_room, long_inline_policy),
    (limits.permissions_of_a_function_fit, many_permissions),
    (limits.alarms_are_accepted, setting("ApiErrorsAlarm", "Metrics", [METRIC] * 9)),
    (limits.alarms_are_accepted, setting("ApiErrorsAlarm", "AlarmDescription", "d" * 1_025)),
    (limits.alarms_are_accepted, setting("AlarmsGeoBaiduAlarm", "EvaluationPeriods", 200)),
    (limits.alarms_are_not_red_from_creation, setting("AlarmsUncheckedAlarm", "DatapointsToAlarm", 1)),
    (limits.sources_fit_their_functions, setting("SchedulerFunction", "Timeout", 11)),
    (limits.sources_fit_their_functions, first_source("ScalingConfig", {"MaximumConcurrency": 1})),
    (limits.sources_fit_their_functions, first_source("BatchSize", 11)),
    (limits.queues_are_accepted, early_dead_letters),
    (limits.queues_are_accepted, setting("PushQueue", "FifoQueue", True)),
    (
        limits.names_fit,
        setting("DataCacheUser", "UserId", {"Fn::Sub": "artiway-${AWS::StackName}-${Environment}-user"}),
    ),
    (limits.kept_data_blocks_no_new_stack, protected_by_name),
    (limits.kept_data_blocks_no_new_stack, kept_after_a_failed_create),
    (limits.state_machines_name_real_errors, misspelt_error),
    (limits.texts_fit, setting("Queues", "Value", {"Fn::Sub": "${PushQueue}" * 80})),
]
ROOT_FAULTS: list[tuple[Check, Callable[[Json], None]]] = [
    (limits.stacks_stay_below_their_counts, many_resources),
    (limits.stacks_stay_below_their_counts, lambda body: body["Parameters"].update({f"P{n}": {} for n in range(200)})),
    (limits.stacks_stay_below_their_counts, lambda body: body["Outputs"].update({f"O{n}": {} for n in range(200)})),
    (limits.stacks_stay_below_their_counts, lambda body: body.update(Description="d" * 1_025)),
    (limits.stacks_stay_below_their_counts, lambda body: body.update(Metadata="m" * 1_000_000)),
    (limits.kept_data_blocks_no_new_stack, retained_nested_stack),
    (
        limits.parameters_of_nested_stacks_are_short,
        lambda body: properties(body, "Edge")["Parameters"].update(Name="n" * 4_097),
    ),
]


@pytest.mark.parametrize(("check", "fault"), FAULTS)
def test_each_check_finds_its_fault(deployment: Deployment, check: Check, fault: Callable[[Json], None]) -> None:
    body = copy.deepcopy(deployment.template.body)
    fault(body)
    assert list(check(deployment_of(Template(body), deployment.stacks)))


@pytest.mark.parametrize(("check", "fault"), ROOT_FAULTS)
def test_faults_of_a_stack_are_found(deployment: Deployment, check: Check, fault: Callable[[Json], None]) -> None:
    body = copy.deepcopy(deployment.stacks["template.yaml"])
    fault(body)
    stacks = deployment.stacks | {"template.yaml": body}
    assert list(check(Deployment(deployment.template, stacks, deployment.rendering)))


def test_every_check_has_a_fault() -> None:
    assert {check for check, _ in FAULTS + ROOT_FAULTS} == set(CHECKS)
