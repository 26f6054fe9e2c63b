"""What AWS refuses and the emulator does not. Each check yields a line for each fault.

The numbers are AWS's quotas, or less where the next feature must find room.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.unit.template.facts import Json, Template, many, metrics_of, target
from tests.unit.template.rendering import Rendering

ENVIRONMENT_BYTES = 3_600  # of 4,096
MANAGED_POLICIES = 8  # of 10
ALARM_METRICS = 8  # of 10
RESOURCES = 475  # of 500
PARAMETERS = OUTPUTS = 200
TEMPLATE_BYTES = 900_000  # of a megabyte
PARAMETER_BYTES = 4_096
MANAGED_POLICY_CHARACTERS, INLINE_CHARACTERS, TRUST_CHARACTERS = 6_144, 10_240, 2_048
PERMISSION_BYTES = 18_000  # of 20,480, for the policy on one function
SSM_VALUE_BYTES = 4_096
VISIBILITY_TIMEOUTS = 6
ROUTES = 300
DEFINITION_BYTES = 900_000
KEPT = {"Retain", "RetainExceptOnCreate", "Snapshot"}
# Property that names a resource -> longest name. A name that CloudFormation makes is as short as it must be.
NAMES = {
    "AWS::ApiGatewayV2::Api": {"Name": 128},
    "AWS::ApplicationAutoScaling::ScalingPolicy": {"PolicyName": 256},
    "AWS::CloudFront::Function": {"Name": 64},
    "AWS::CloudFront::OriginAccessControl": {"OriginAccessControlConfig.Name": 64},
    "AWS::CloudWatch::Alarm": {"AlarmName": 255},
    "AWS::CloudWatch::Dashboard": {"DashboardName": 255},
    "AWS::ECR::Repository": {"RepositoryName": 256},
    "AWS::ECS::TaskDefinition": {"Family": 255},
    "AWS::ElastiCache::ReplicationGroup": {"ReplicationGroupId": 40},
    "AWS::ElastiCache::User": {"UserId": 40},
    "AWS::ElastiCache::UserGroup": {"UserGroupId": 40},
    "AWS::IAM::ManagedPolicy": {"ManagedPolicyName": 128},
    "AWS::IAM::Role": {"RoleName": 64},
    "AWS::KMS::Alias": {"AliasName": 256},
    "AWS::KMS::Key": {},
    "AWS::Lambda::Function": {"FunctionName": 64},
    "AWS::Logs::LogGroup": {"LogGroupName": 512},
    "AWS::RDS::DBCluster": {"DBClusterIdentifier": 63},
    "AWS::RDS::DBInstance": {"DBInstanceIdentifier": 63},
    "AWS::RDS::DBProxy": {"DBProxyName": 63},
    "AWS::S3::Bucket": {"BucketName": 63},
    "AWS::SNS::Topic": {"TopicName": 256},
    "AWS::SQS::Queue": {"QueueName": 80},
    "AWS::SSM::Parameter": {"Name": 1_011},
    "AWS::SecretsManager::Secret": {"Name": 512},
    "AWS::StepFunctions::StateMachine": {"StateMachineName": 80},
    "AWS::WAFv2::WebACL": {"Name": 128},
}
# Names of errors that Step Functions itself raises for Lambda and SQS tasks. A misspelt one is never caught.
LAMBDA_ERRORS = {
    "Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException", "Lambda.TooManyRequestsException", "Lambda.Unknown",
}  # fmt: skip
SQS_ERRORS = {"SQS.SdkClientException", "SQS.AmazonSQSException"}
RAISED_ERRORS = {"lambda:invoke": LAMBDA_ERRORS, "sqs:sendMessage": SQS_ERRORS}
OWN_ERRORS = {"DatabaseAway"}  # exceptions of ours


@dataclass(frozen=True)
class Deployment:
    """The platform, flat, and each template as it is uploaded."""

    template: Template
    stacks: dict[str, Json]
    rendering: Rendering


Check = Callable[[Deployment], Iterator[str]]


def stacks_stay_below_their_counts(one: Deployment) -> Iterator[str]:
    for name, body in one.stacks.items():
        limits = {"Resources": RESOURCES, "Parameters": PARAMETERS, "Outputs": OUTPUTS}
        yield from (
            f"{name}: {len(body.get(part, {}))} {part}"
            for part, limit in limits.items()
            if len(body.get(part, {})) > limit
        )
        if (size := len(json.dumps(body))) > TEMPLATE_BYTES:
            yield f"{name}: {size} bytes"
        if len(body.get("Description", "")) > 1_024:
            yield f"{name}: its description"


def parameters_of_nested_stacks_are_short(one: Deployment) -> Iterator[str]:
    for name, resource in one.stacks["template.yaml"]["Resources"].items():
        if resource["Type"] == "AWS::CloudFormation::Stack":
            for key, value in resource["Properties"].get("Parameters", {}).items():
                # A reference to an output has the length of an address.
                size = 0 if "Outputs." in json.dumps(value) else len(one.rendering.text(value).encode())
                if size > PARAMETER_BYTES:
                    yield f"{name}.{key}: {size} bytes"


def environments_fit(one: Deployment) -> Iterator[str]:
    for name in one.template.functions:
        variables = {key: one.rendering.text(value) for key, value in one.template.variables_of(name).items()}
        if (size := len(json.dumps(variables, separators=(",", ":")).encode())) >= ENVIRONMENT_BYTES:
            yield f"{name}: {size} bytes"


def functions_are_accepted(one: Deployment) -> Iterator[str]:
    for name, function in one.template.functions.items():
        if len(function.get("Layers", [])) > 5:
            yield f"{name}: layers"
        if len(function.get("Description", "")) > 256:
            yield f"{name}: its description"
        if not 1 <= function["Timeout"] <= 900:
            yield f"{name}: its time-out"
        # A permission names functions by the beginning of their names, so none may be shortened.
        if len(one.rendering.made(name)) > 64:
            yield f"{name}: its name"


def roles_have_room(one: Deployment) -> Iterator[str]:
    for name, role in one.template.of_type("AWS::IAM::Role").items():
        if (count := len(role.get("ManagedPolicyArns", []))) > MANAGED_POLICIES:
            yield f"{name}: {count} managed policies"
        inline = sum(one.rendering.policy(policy["PolicyDocument"]) for policy in role.get("Policies", []))
        if inline > INLINE_CHARACTERS:
            yield f"{name}: {inline} characters of inline policies"
        if one.rendering.policy(role["AssumeRolePolicyDocument"]) > TRUST_CHARACTERS:
            yield f"{name}: its trust policy"
    for name, policy in one.template.of_type("AWS::IAM::ManagedPolicy").items():
        if (size := one.rendering.policy(policy["PolicyDocument"])) > MANAGED_POLICY_CHARACTERS:
            yield f"{name}: {size} characters"


def permissions_of_a_function_fit(one: Deployment) -> Iterator[str]:
    sizes: dict[str, int] = defaultdict(int)
    for name, permission in one.template.of_type("AWS::Lambda::Permission").items():
        statement = {
            "Sid": one.rendering.made(name),
            "Effect": "Allow",
            "Principal": {"Service": one.rendering.text(permission["Principal"])},
            "Action": "lambda:InvokeFunction",
            "Resource": one.rendering.text({"Fn::GetAtt": [target(permission["FunctionName"]), "Arn"]}),
            "Condition": {"ArnLike": {"AWS:SourceArn": one.rendering.text(permission.get("SourceArn", ""))}},
        }
        sizes[target(permission["FunctionName"])] += len(json.dumps(statement))
    yield from (f"{name}: {size} bytes of permissions" for name, size in sizes.items() if size > PERMISSION_BYTES)


def alarms_are_accepted(one: Deployment) -> Iterator[str]:
    for name, alarm in one.template.of_type("AWS::CloudWatch::Alarm").items():
        if (count := len(list(metrics_of(alarm)))) > ALARM_METRICS:
            yield f"{name}: {count} metrics"
        if len(alarm["AlarmDescription"]) > 1_024:
            yield f"{name}: its description"
        for query in alarm.get("Metrics", []):
            if len(query.get("Expression", "")) > 1_024:
                yield f"{name}: its expression"
        periods = [query["MetricStat"]["Period"] for query in alarm.get("Metrics", []) if "MetricStat" in query]
        seconds = max([*periods, alarm.get("Period", 0)]) * alarm["EvaluationPeriods"]
        if seconds > 86_400:
            yield f"{name}: looks back {seconds} s"


def alarms_are_not_red_from_creation(one: Deployment) -> Iterator[str]:
    """One that counts missing data as a breach needs all its periods without data, not one of several."""
    for name, alarm in one.template.of_type("AWS::CloudWatch::Alarm").items():
        few = alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"]) < alarm["EvaluationPeriods"]
        if alarm["TreatMissingData"] == "breaching" and (few or alarm["EvaluationPeriods"] == 1):
            yield name


def sources_fit_their_functions(one: Deployment) -> Iterator[str]:
    for name, source in one.template.of_type("AWS::Lambda::EventSourceMapping").items():
        queue = one.template.resources[target(source["EventSourceArn"])]["Properties"]
        function = one.template.functions[one.template.function_of(source["FunctionName"])]
        visibility = one.template.value(queue.get("VisibilityTimeout", 30))
        is_ordered = queue.get("FifoQueue", False)
        if visibility < VISIBILITY_TIMEOUTS * function["Timeout"]:
            yield f"{name}: a message comes back after {visibility} s"
        if not 2 <= source.get("ScalingConfig", {}).get("MaximumConcurrency", 0) <= 1_000:
            yield f"{name}: its concurrency"
        batch, window = source.get("BatchSize", 10), source.get("MaximumBatchingWindowInSeconds", 0)
        if batch > (10 if is_ordered else 10_000) or (batch > 10 and not window) or window > 300:
            yield f"{name}: its batch"
        if window and visibility < VISIBILITY_TIMEOUTS * function["Timeout"] + window - 1:
            yield f"{name}: its window"


def queues_are_accepted(one: Deployment) -> Iterator[str]:
    queues = one.template.of_type("AWS::SQS::Queue")
    for name, queue in queues.items():
        if queue.get("FifoQueue") and not one.rendering.text(queue.get("QueueName", ".fifo")).endswith(".fifo"):
            yield f"{name}: its name"
        if not 0 <= one.template.value(queue.get("VisibilityTimeout", 30)) <= 43_200:
            yield f"{name}: its time-out"
        if not 60 <= queue.get("MessageRetentionPeriod", 345_600) <= 1_209_600:
            yield f"{name}: its retention"
        if "RedrivePolicy" in queue:
            dead = queues[target(queue["RedrivePolicy"]["deadLetterTargetArn"])]
            if dead.get("FifoQueue", False) != queue.get("FifoQueue", False):
                yield f"{name}: its dead letters are of another kind"
            # A message keeps its age when it moves.
            if dead.get("MessageRetentionPeriod", 345_600) <= queue.get("MessageRetentionPeriod", 345_600):
                yield f"{name}: its dead letters expire first"
            if not 1 <= queue["RedrivePolicy"]["maxReceiveCount"] <= 1_000:
                yield f"{name}: its receives"


def names_fit(one: Deployment) -> Iterator[str]:
    for name, resource in one.template.resources.items():
        for key, limit in NAMES.get(resource["Type"], {}).items():
            if (value := named(resource, key)) is not None and (size := len(one.rendering.text(value))) > limit:
                yield f"{name}: {size} characters, {limit} are allowed"


def kept_data_blocks_no_new_stack(one: Deployment) -> Iterator[str]:
    """A create that failed is repeated: nothing is left behind, and nothing that is kept later has a name of ours."""
    for name, resource in one.template.resources.items():
        policy = resource.get("DeletionPolicy", "Delete")
        if policy == "Retain" and resource["Type"] != "AWS::Lambda::Version":  # it goes with its function
            yield f"{name}: a failed create leaves it behind"
        if policy in KEPT - {"Snapshot"}:
            yield from (
                f"{name}: kept with the name {key}" for key in NAMES.get(resource["Type"], {}) if named(resource, key)
            )
    for name, resource in one.stacks["template.yaml"]["Resources"].items():
        if resource["Type"] == "AWS::CloudFormation::Stack" and resource.get("DeletionPolicy", "Delete") != "Delete":
            yield f"{name}: the resources of a nested stack have policies of their own"


def state_machines_name_real_errors(one: Deployment) -> Iterator[str]:
    for name, machine in one.template.of_type("AWS::StepFunctions::StateMachine").items():
        text = one.rendering.text(machine["DefinitionString"])
        if len(text.encode()) > DEFINITION_BYTES:
            yield f"{name}: its definition"
        for state_name, state in states(json.loads(text)):
            if len(state_name) > 80:
                yield f"{name}.{state_name}: its name"
            retried = {error for retry in state.get("Retry", []) for error in retry["ErrorEquals"]}
            known = {error for errors in RAISED_ERRORS.values() for error in errors} | OWN_ERRORS
            yield from (
                f"{name}.{state_name}: nobody raises {error}"
                for error in sorted(retried | {error for one in state.get("Catch", []) for error in one["ErrorEquals"]})
                if not error.startswith("States.") and error not in known
            )
            for resource, errors in RAISED_ERRORS.items():
                if resource in state.get("Resource", "") and "States.ALL" not in retried:
                    yield from (f"{name}.{state_name}: does not retry {error}" for error in sorted(errors - retried))


def texts_fit(one: Deployment) -> Iterator[str]:
    for name, parameter in one.template.of_type("AWS::SSM::Parameter").items():
        if (size := len(one.rendering.text(parameter["Value"]).encode())) > SSM_VALUE_BYTES:
            yield f"{name}: {size} bytes"
    for name, policy in one.template.of_type("AWS::S3::BucketPolicy").items():
        if one.rendering.policy(policy["PolicyDocument"]) > 20_480:
            yield f"{name}: its policy"
    for name, key in one.template.of_type("AWS::KMS::Key").items():
        if one.rendering.policy(key["KeyPolicy"]) > 32_768:
            yield f"{name}: its policy"
    for name, api in one.template.of_type("AWS::ApiGatewayV2::Api").items():
        routes = sum(len(methods) for methods in api.get("Body", {}).get("paths", {}).values())
        if routes > ROUTES:
            yield f"{name}: {routes} routes"


def named(resource: Json, key: str) -> Any:
    value: Any = resource.get("Properties", {})
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def states(definition: Json) -> Iterator[tuple[str, Json]]:
    """All states, those inside Map and Parallel states included."""
    for name, state in definition["States"].items():
        yield name, state
        for inner in [*many(state.get("ItemProcessor", [])), *state.get("Branches", [])]:
            yield from states(inner)


CHECKS: tuple[Check, ...] = (
    stacks_stay_below_their_counts,
    parameters_of_nested_stacks_are_short,
    environments_fit,
    functions_are_accepted,
    roles_have_room,
    permissions_of_a_function_fit,
    alarms_are_accepted,
    alarms_are_not_red_from_creation,
    sources_fit_their_functions,
    queues_are_accepted,
    names_fit,
    kept_data_blocks_no_new_stack,
    state_machines_name_real_errors,
    texts_fit,
)
