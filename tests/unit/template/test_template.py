"""Rules of ours about the expanded template."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest

from artiway.platform.database import HEAD_START_S
from artiway.platform.settings import Settings
from local.template import references
from tests.unit.template.facts import ROOT, Template, many, metrics_of, target

# What SAM itself attaches (logs, traces, network interfaces, gradual deployments), and AWS's list for its own backups.
SAM_POLICIES = {
    "AWSLambdaBasicExecutionRole", "AWSLambdaVPCAccessExecutionRole", "AWSXrayWriteOnlyAccess",
    "AWSCodeDeployRoleForLambda", "AWSBackupServiceRolePolicyForBackup",
}  # fmt: skip
# What API Gateway asks for to write its logs: groups of any name, which it makes itself.
API_LOG_POLICY = {"AmazonAPIGatewayPushToCloudWatchLogs"}
# Actions that know no resources, with the reason beside them in the template.
RESOURCELESS_ACTIONS = {
    "TaskDagStateMachineRole": "logs:",
    "AnswerTokensPolicy": "states:SendTask",
    "ExecutionsPolicy": "states:SendTask",
    "GpuWorkersMachineRole": "ecs:DiscoverPollEndpoint",
    "GpuWorkersExecutionRole": "ecr:GetAuthorizationToken",
    "EnterpriseWorkersMachineRole": "ecs:DiscoverPollEndpoint",
    "EnterpriseWorkersExecutionRole": "ecr:GetAuthorizationToken",
}
STATEFUL = {
    "AWS::ElastiCache::ReplicationGroup", "AWS::KMS::Key", "AWS::RDS::DBCluster", "AWS::S3::Bucket", "AWS::SQS::Queue",
}  # fmt: skip
# A variable is there if and only if the role may do what it is for.
PERMISSION_OF = {
    "ARTIWAY_DATABASE_URL": ("rds-db:connect", "/artiway_app"),
    "ARTIWAY_SERVICE_DATABASE_URL": ("rds-db:connect", "/artiway_service"),
    "ARTIWAY_OWNER_DATABASE_URL": ("rds-db:connect", "/artiway_owner"),
    "ARTIWAY_REDIS_URL": ("elasticache:Connect", "replicationgroup:${DataCache}"),
    "ARTIWAY_QUEUES": ("sqs:SendMessage", "Queue"),
    "ARTIWAY_TEXT_QUEUES": ("sqs:SendMessage", "-text-"),
    "ARTIWAY_WEBSOCKET_ENDPOINT": ("execute-api:ManageConnections", "/ws/POST/@connections/*"),
}
VISIBILITY_TIMEOUTS = 6


def test_every_function_has_a_role_of_its_own(template: Template) -> None:
    roles = [target(function["Role"]) for function in template.functions.values()]
    assert len(roles) == len(set(roles)) > 0


def test_no_policy_allows_actions_by_wildcard(template: Template) -> None:
    statements = list(template.statements())
    assert statements
    wild = [(name, action) for name, one in statements for action in many(one["Action"]) if "*" in action]
    assert wild == []
    assert not [name for name, one in statements if "NotAction" in one or "NotResource" in one]


def test_only_actions_without_resources_allow_a_wildcard(template: Template) -> None:
    for name, one in template.statements():
        if "*" in many(one["Resource"]):
            prefix = RESOURCELESS_ACTIONS.get(name)
            assert prefix, f"{name} may {one['Action']} on everything"
            assert all(action.startswith(prefix) for action in many(one["Action"])), name


def test_roles_use_only_sam_and_own_policies(template: Template) -> None:
    for name, role in template.of_type("AWS::IAM::Role").items():
        for arn in role.get("ManagedPolicyArns", []):
            if isinstance(arn, dict) and "Ref" in arn:
                assert template.resources[arn["Ref"]]["Type"] == "AWS::IAM::ManagedPolicy"
            else:
                assert re.search(r"[A-Za-z]+$", json.dumps(arn).strip('"}] '))[0] in SAM_POLICIES | API_LOG_POLICY, (
                    name,
                    arn,
                )


@pytest.mark.parametrize("variable", PERMISSION_OF)
def test_function_permissions_match_its_environment(template: Template, variable: str) -> None:
    action, resource = PERMISSION_OF[variable]
    for function in template.functions:
        may = any(
            action in many(one["Action"]) and resource in json.dumps(one["Resource"])
            for one in template.granted(function)
        )
        assert may == (variable in template.variables_of(function)), function


def test_only_the_deployment_owns_the_schema(template: Template) -> None:
    owners = [f for f in template.functions if "ARTIWAY_OWNER_DATABASE_URL" in template.variables_of(f)]
    assert owners == ["DeployFunction"]


def test_no_environment_variable_holds_a_password(template: Template) -> None:
    for function in template.functions:
        text = json.dumps(template.variables_of(function))
        assert "resolve:secretsmanager" not in text
        assert not re.search(r"://[^/@\"]+:[^/@\"$]+@", text), function


def test_every_queue_has_an_alarmed_dead_letter_queue(template: Template) -> None:
    queues = template.of_type("AWS::SQS::Queue")
    dead_letters = {
        target(queue["RedrivePolicy"]["deadLetterTargetArn"]) for queue in queues.values() if "RedrivePolicy" in queue
    }
    alarmed = {
        target(dimensions["QueueName"])
        for alarm in template.of_type("AWS::CloudWatch::Alarm").values()
        for _, metric, dimensions in metrics_of(alarm)
        if metric == "ApproximateNumberOfMessagesVisible" and {"Ref": "AlarmTopic"} in alarm["AlarmActions"]
    }
    for name, queue in queues.items():
        assert name in dead_letters or "RedrivePolicy" in queue, f"{name} loses what fails"
        assert name not in dead_letters or name in alarmed, f"nobody learns of {name}"
        assert queue.get("SqsManagedSseEnabled") is True, name


def test_an_old_or_silent_outbox_raises_an_alarm(template: Template) -> None:
    alarm = template.of_type("AWS::CloudWatch::Alarm")["AlarmsOutboxAgeAlarm"]
    assert (alarm["Namespace"], alarm["MetricName"]) == ("Artiway", "OutboxOldestSeconds")
    assert alarm["Dimensions"] == [{"Name": "environment", "Value": {"Ref": "Environment"}}]
    assert alarm["Threshold"] == 60
    assert alarm["TreatMissingData"] == "breaching"


def test_queues_redeliver_failures_after_six_time_outs(template: Template) -> None:
    sources = template.of_type("AWS::Lambda::EventSourceMapping")
    assert sources
    for name, source in sources.items():
        queue = template.resources[target(source["EventSourceArn"])]["Properties"]
        function = template.functions[template.function_of(source["FunctionName"])]
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"], name
        assert template.value(queue["VisibilityTimeout"]) >= VISIBILITY_TIMEOUTS * function["Timeout"], name


def test_a_function_outlives_its_waits_for_the_database(template: Template) -> None:
    """The answer is then ours: 503 with its code, or a message that failed alone, and not the time-out of Lambda."""
    for name, function in template.functions.items():
        limits = {
            variable.removeprefix("ARTIWAY_").lower(): value
            for variable, value in template.variables_of(name).items()
            if variable.startswith("ARTIWAY_DATABASE_") and "_TIMEOUT_" in variable
        }
        settings = Settings(**limits)
        statement_s = settings.database_statement_timeout_ms / 1_000 + HEAD_START_S
        assert max(statement_s, settings.database_request_timeout_s) < function["Timeout"], name


def test_every_log_group_forgets(template: Template) -> None:
    groups = template.of_type("AWS::Logs::LogGroup")
    assert groups
    assert [name for name, group in groups.items() if "RetentionInDays" not in group] == []


def test_every_resource_writes_to_a_declared_log_group(template: Template) -> None:
    groups = set(template.of_type("AWS::Logs::LogGroup"))
    stages = template.of_type("AWS::ApiGatewayV2::Stage").values()
    written = [
        *(target(function["LoggingConfig"]["LogGroup"]) for function in template.functions.values()),
        *(target(stage["AccessLogSettings"]["DestinationArn"]) for stage in stages),
    ]
    for machine in template.of_type("AWS::StepFunctions::StateMachine").values():
        destination = machine["LoggingConfiguration"]["Destinations"][0]
        written.append(target(destination["CloudWatchLogsLogGroup"]["LogGroupArn"]))
        assert machine["LoggingConfiguration"]["IncludeExecutionData"] is False
    assert set(written) <= groups
    assert len(written) == len(set(written))


def test_the_proxy_writes_to_a_declared_group(template: Template) -> None:
    """RDS makes a missing group itself, and keeps its lines for ever."""
    group = template.resources["DataDatabaseProxyLogGroup"]["Properties"]["LogGroupName"]
    name = template.resources["DataDatabaseProxy"]["Properties"]["DBProxyName"]
    assert group == {"Fn::Sub": f"/aws/rds/proxy/${{{name['Ref']}}}"}
    assert "DataDatabaseProxyLogGroup" in template.resources["DataDatabaseProxy"]["DependsOn"]


def test_websocket_stage_follows_the_log_role(template: Template) -> None:
    assert template.body["Parameters"]["HasApiLogRole"]["Default"] == "true"
    account = template.resources["ApiGatewayAccount"]
    assert account["Condition"] == "ApiLogRole"
    assert target(account["Properties"]["CloudWatchRoleArn"]) == "ApiGatewayLogRole"
    assert "ApiGatewayAccount" in {name for name, _ in references(template.resources["WebsocketStage"])}
    for name in ("ApiGatewayAccount", "ApiGatewayLogRole"):
        assert template.resources[name]["DeletionPolicy"] == "RetainExceptOnCreate", "other stacks may use it"


def test_alarms_follow_the_first_passes(root: Template) -> None:
    """An alarm that counts missing data as a breach then finds data."""
    assert many(root.resources["Alarms"]["DependsOn"]) == ["Recovery"]


def test_access_logs_hold_no_query_and_no_header(template: Template) -> None:
    for name, stage in template.of_type("AWS::ApiGatewayV2::Stage").items():
        logged = stage["AccessLogSettings"]["Format"]
        assert not re.search(r"query|header|authorization|token", logged, re.IGNORECASE), name


def test_conventions_hold_for_every_function(template: Template) -> None:
    for name, function in template.functions.items():
        assert function["TracingConfig"] == {"Mode": "Active"}, name
        assert function["LoggingConfig"]["LogFormat"] == "JSON", name
        assert function["Runtime"] == {"Ref": "PythonRuntime"}, name
        assert function["Handler"] == "app.handler", name
        assert function["Layers"] == [{"Ref": layer} for layer in layers(template)], name
        assert 0 < function["Timeout"] <= (900 if name == "DeployFunction" else 300), name  # a migration may take long


def layers(template: Template) -> list[str]:
    """SAM adds a hash to a layer's logical id."""
    names = template.of_type("AWS::Lambda::LayerVersion")
    return [next(name for name in names if name.startswith(prefix)) for prefix in ("DependenciesLayer", "CoreLayer")]


def test_routes_without_security_skip_the_authorizer(template: Template) -> None:
    (body,) = [api["Body"] for api in template.of_type("AWS::ApiGatewayV2::Api").values() if "Body" in api]
    document = json.loads((ROOT / "layers/core/artiway/openapi.json").read_text())["paths"]
    operations = {
        (path, method): operation for path, methods in body["paths"].items() for method, operation in methods.items()
    }
    assert operations
    for (path, method), operation in operations.items():
        is_fallback = path.lstrip("/") == "$default"
        assert is_fallback or method in document.get(path, {}), f"{method} {path} is not in the document: make openapi"
        is_for_all = is_fallback or not document[path][method].get("security")
        wanted = [{"NONE": []}] if is_for_all else [{"TokenAuthorizer": []}]
        assert operation["security"] == wanted, (path, method)
        assert operation["x-amazon-apigateway-integration"]["payloadFormatVersion"] == "2.0"


def test_the_authorizer_is_asked_again_within_a_minute(template: Template) -> None:
    (body,) = [api["Body"] for api in template.of_type("AWS::ApiGatewayV2::Api").values() if "Body" in api]
    settings = body["components"]["securitySchemes"]["TokenAuthorizer"]["x-amazon-apigateway-authorizer"]
    assert settings["authorizerPayloadFormatVersion"] == "2.0"
    assert settings["enableSimpleResponses"] is True
    assert settings["authorizerResultTtlInSeconds"] <= 60


def test_data_resources_survive_deletion_of_the_stack(template: Template) -> None:
    kept = {n: r for n, r in template.resources.items() if r["Type"] in STATEFUL}
    assert {resource["Type"] for resource in kept.values()} == STATEFUL
    for name, resource in kept.items():
        # The cache may be lost at any moment; that it is thrown away is said, not forgotten.
        policies = (resource["DeletionPolicy"], resource["UpdateReplacePolicy"])
        # So it is with the wake-ups of the lanes of texts, for which rows stand.
        if "ElastiCache" in resource["Type"] or "QueueName" in resource.get("Properties", {}):
            assert policies == ("Delete", "Delete"), name
        else:
            assert policies in {("RetainExceptOnCreate", "Retain"), ("Snapshot", "Snapshot")}, name


def test_every_bucket_is_private_encrypted_tls_only(template: Template) -> None:
    policies = {
        target(policy["Bucket"]): many(policy["PolicyDocument"]["Statement"])
        for policy in template.of_type("AWS::S3::BucketPolicy").values()
    }
    for name, bucket in template.of_type("AWS::S3::Bucket").items():
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}, name
        assert bucket["BucketEncryption"], name
        assert bucket["LifecycleConfiguration"]["Rules"], name
        refusal = {"Bool": {"aws:SecureTransport": "false"}}
        assert any(s["Effect"] == "Deny" and s.get("Condition") == refusal for s in policies[name]), name


def test_schedules_do_not_retry_beside_the_next_run(template: Template) -> None:
    settings = template.of_type("AWS::Lambda::EventInvokeConfig").values()
    patient = {target(one["FunctionName"]) for one in settings if one["MaximumRetryAttempts"] == 0}
    rules = [rule for rule in template.of_type("AWS::Events::Rule").values() if "ScheduleExpression" in rule]
    fired = {target(one["Arn"]): rule["ScheduleExpression"] for rule in rules for one in rule["Targets"]}
    assert fired["RelayFunction"] == "rate(1 minute)"
    assert fired.keys() <= patient


def test_database_functions_are_deployed_after_the_migrations(template: Template) -> None:
    for function in set(template.functions) - {"DeployFunction"}:
        if any("DATABASE_URL" in variable for variable in template.variables_of(function)):
            assert "Migration" in many(template.resources[function].get("DependsOn", [])), function


def test_a_new_migration_makes_the_deployment_run_it(template: Template) -> None:
    migrations = sorted((ROOT / "layers/core/artiway/schema/migrations").glob("*.sql"))
    newest = int(migrations[-1].name.partition("_")[0])
    assert template.body["Parameters"]["SchemaVersion"]["Default"] == str(newest)
    assert template.of_type("Custom::Migration")["Migration"]["SchemaVersion"] == {"Ref": "SchemaVersion"}


def test_migrations_run_with_new_code_despite_old_parameters(template: Template) -> None:
    """`sam deploy` gives a stack that exists its old values again, not a newer default."""
    core = next(name for name in template.of_type("AWS::Lambda::LayerVersion") if name.startswith("CoreLayer"))
    assert template.of_type("Custom::Migration")["Migration"]["Layer"] == {"Ref": core}


def test_layers_are_built_for_the_functions_runtime(template: Template) -> None:
    makefile = (ROOT / "layers/core/Makefile").read_text()
    defaults = dict(re.findall(r"^(\w+) \?= (\S+)$", makefile, re.MULTILINE))
    parameters = template.body["Parameters"]
    assert parameters["PythonRuntime"]["Default"] == f"python{defaults['PYTHON_VERSION']}"
    assert parameters["Architecture"]["Default"] == defaults["ARCHITECTURE"]


def test_state_machines_get_exactly_the_substitutions_used(source: dict[str, Any]) -> None:
    machines = [r["Properties"] for r in source["Resources"].values() if r["Type"] == "AWS::Serverless::StateMachine"]
    assert machines
    for machine in machines:
        asked = set(re.findall(r"\$\{(\w+)\}", json.dumps(machine["Definition"])))
        assert asked == set(machine["DefinitionSubstitutions"])


def test_production_has_standby_and_deletion_protection(template: Template) -> None:
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())
    assert "IsProduction=true" in config["prod"]["deploy"]["parameters"]["parameter_overrides"]
    database = template.resources["DataDatabase"]["Properties"]
    assert database["DeletionProtection"] == {"Fn::If": ["DataProduction", True, False]}
    assert template.resources["DataDatabaseStandby"]["Condition"] == "DataStandby"
    assert {"Condition": "DataProduction"} in template.body["Conditions"]["DataStandby"]["Fn::And"]


def test_custom_resources_depend_on_their_response_route(root: Template, template: Template) -> None:
    """A reference to an output of a nested stack waits for all of it: also routes and the proxy's targets."""
    custom = [resource["Properties"] for resource in root.resources.values() if resource["Type"].startswith("Custom::")]
    assert custom
    for properties in custom:
        function = root.resources[target(properties["ServiceToken"])]
        assert {"Network", "Data"} <= {name for name, _ in references(function)}
        assert int(properties["ServiceTimeout"]) <= 930
    routes = ("PrivateDefaultRouteA", "PrivateDefaultRouteB", "PrivateRoutesOfA", "PrivateRoutesOfB", "S3Endpoint")
    assert {f"Network{route}" for route in routes} | {"DataDatabaseProxyTargets"} <= set(template.resources)


def test_logs_that_include_query_strings_are_off(template: Template) -> None:
    (distribution,) = template.of_type("AWS::CloudFront::Distribution").values()
    assert "Logging" not in distribution["DistributionConfig"]
    for firewall_log in template.of_type("AWS::WAFv2::LoggingConfiguration").values():
        assert {"QueryString": {}} in firewall_log["RedactedFields"]
        assert {"SingleHeader": {"Name": "authorization"}} in firewall_log["RedactedFields"]
