"""What a worker may do, how it is held, and when there are more of them."""

from __future__ import annotations

import ast
import json
import re
from itertools import product
from typing import Any

import pytest

from artiway.scheduling.operations import IMAGE_POOLS
from tests.unit.template.facts import ROOT, Template, many, target

DOCKERFILE = (ROOT / "worker/Dockerfile").read_text()
# What it does, on what. Nothing else: no picture, no database, no cache, no secret, nothing of the other pool.
MAY = {
    "sqs:ReceiveMessage": "work",
    "sqs:DeleteMessage": "work",
    "sqs:ChangeMessageVisibility": "work",
    "sqs:SendMessage": {"ProgressQueue"},
    "lambda:InvokeFunction": "alias",
    "s3:GetObject": {"arn:${AWS::Partition}:s3:::${DataArtefactBucket}/models/*"},
    "kms:Decrypt": {"DataKey"},
}
RELEASE_CALL_S = 5


def of_pool(template: Template, pool: str, kind: str) -> dict[str, Any]:
    properties: dict[str, Any] = template.resources[f"{pool.capitalize()}Workers{kind}"]["Properties"]
    return properties


def container(template: Template, pool: str) -> dict[str, Any]:
    (one,) = of_pool(template, pool, "Task")["ContainerDefinitions"]
    return dict(one)


def environment(template: Template, pool: str) -> dict[str, Any]:
    return {one["Name"]: one["Value"] for one in container(template, pool)["Environment"]}


def resource_of(value: Any) -> str:
    return str(value["Fn::Sub"]) if "Fn::Sub" in value else target(value)


def work_queues(template: Template, pool: str) -> set[str]:
    queues = template.of_type("AWS::SQS::Queue")
    return {name for name in queues if name.startswith(f"Work{pool.capitalize()}") and "DeadLetter" not in name}


def test_every_pool_of_the_scheduler_has_workers(template: Template) -> None:
    assert len(template.of_type("AWS::ECS::Service")) == len(IMAGE_POOLS)
    assert {environment(template, pool)["ARTIWAY_WORKER_POOL"] for pool in IMAGE_POOLS} == set(IMAGE_POOLS)


@pytest.mark.parametrize("pool", IMAGE_POOLS)
def test_worker_role_has_only_the_needed_permissions(template: Template, pool: str) -> None:
    role = of_pool(template, pool, "TaskRole")
    assert "ManagedPolicyArns" not in role
    allowed: dict[str, set[str]] = {}
    for policy in role["Policies"]:
        for one in policy["PolicyDocument"]["Statement"]:
            assert one["Effect"] == "Allow"
            for action in many(one["Action"]):
                allowed.setdefault(action, set()).update(resource_of(value) for value in many(one["Resource"]))
    own = {"work": work_queues(template, pool), "alias": {f"{pool.capitalize()}WorkersInternal"}}
    assert allowed == {action: own[on] if isinstance(on, str) else on for action, on in MAY.items()}


@pytest.mark.parametrize("pool", IMAGE_POOLS)
def test_alias_of_internal_proves_the_pool(template: Template, pool: str) -> None:
    alias = of_pool(template, pool, "Internal")
    assert template.function_of({"Ref": f"{pool.capitalize()}WorkersInternal"}) == "InternalFunction"
    assert (alias["Name"], alias["FunctionVersion"]) == (pool, "$LATEST")
    assert environment(template, pool)["ARTIWAY_INTERNAL_FUNCTION"] == {"Ref": f"{pool.capitalize()}WorkersInternal"}


def test_only_internal_signs_addresses_of_worker_pictures(template: Template) -> None:
    allowed = {
        (action, resource_of(value))
        for policy in template.role_of("InternalFunction")["Policies"]
        for one in policy["PolicyDocument"]["Statement"]
        for action in many(one["Action"])
        if action.startswith("s3:")
        for value in many(one["Resource"])
    }
    bucket = "arn:${AWS::Partition}:s3:::${DataArtefactBucket}"
    assert allowed == {
        ("s3:GetObject", f"{bucket}/inputs/*"),
        ("s3:GetObject", f"{bucket}/outputs/*"),
        ("s3:PutObject", f"{bucket}/outputs/*"),
        ("s3:ListBucket", bucket),
    }


def test_a_key_serves_a_worker_through_s3_alone(template: Template) -> None:
    for pool in IMAGE_POOLS:
        (statement,) = [
            one
            for policy in of_pool(template, pool, "TaskRole")["Policies"]
            for one in policy["PolicyDocument"]["Statement"]
            if "kms:Decrypt" in many(one["Action"])
        ]
        assert statement["Condition"] == {
            "StringEquals": {"kms:ViaService": {"Fn::Sub": "s3.${AWS::Region}.amazonaws.com"}}
        }


def test_only_ecs_puts_on_the_roles_of_workers(template: Template) -> None:
    for pool, kind in product(IMAGE_POOLS, ("TaskRole", "ExecutionRole")):
        (trust,) = of_pool(template, pool, kind)["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "ecs-tasks.amazonaws.com"}
        assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


@pytest.mark.parametrize("pool", IMAGE_POOLS)
def test_worker_environment_matches_settings_without_secrets(template: Template, pool: str) -> None:
    tree = ast.parse((ROOT / "worker/settings.py").read_text())
    (settings,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "WorkerSettings"]
    fields = [n for n in settings.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    known = {f"ARTIWAY_{n.target.id.upper()}" for n in fields if isinstance(n.target, ast.Name)}
    required = {
        f"ARTIWAY_{n.target.id.upper()}"
        for n in fields
        if isinstance(n.target, ast.Name)
        and (n.value is None or (isinstance(n.value, ast.Call) and "default" not in {k.arg for k in n.value.keywords}))
    }
    variables = environment(template, pool)
    ours = {name for name in variables if name.startswith("ARTIWAY_")}
    assert required
    assert required <= ours <= known
    condition, (key,), otherwise = container(template, pool)["Secrets"]["Fn::If"]
    assert (key["Name"], otherwise) == ("ARTIWAY_IMAGES_API_KEY", {"Ref": "AWS::NoValue"})
    assert template.body["Parameters"]["WorkerImagesApiKeyArn"]["Default"] == ""
    assert "ImagesApiKey" in condition
    assert not re.search(r"secret|password|database|redis", json.dumps(variables), re.IGNORECASE)


@pytest.mark.parametrize("pool", IMAGE_POOLS)
def test_worker_polls_its_pool_queues_of_every_type(template: Template, pool: str) -> None:
    text = environment(template, pool)["ARTIWAY_WORK_QUEUE_URLS"]["Fn::Sub"]
    urls = json.loads(text)
    assert {url.strip("${}") for url in urls.values()} == work_queues(template, pool)
    for node_type, url in urls.items():
        assert node_type.replace("_", "") in url.lower(), "a type with another's queue"


@pytest.mark.parametrize("pool", IMAGE_POOLS)
def test_worker_is_unprivileged_with_a_readonly_root(template: Template, pool: str) -> None:
    worker = container(template, pool)
    found = re.search(r"useradd .*--uid (\d+)", DOCKERFILE)
    assert found
    assert worker["User"] == found[1] != "0"
    assert worker["ReadonlyRootFilesystem"] is True
    assert worker["Privileged"] is False
    assert worker["DockerSecurityOptions"] == ["no-new-privileges"]
    assert worker["LinuxParameters"]["Capabilities"] == {"Drop": ["ALL"]}
    mounted = {one["ContainerPath"] for one in worker["MountPoints"]}
    mounted |= {one["ContainerPath"] for one in worker["LinuxParameters"]["Tmpfs"]}
    written = dict(re.findall(r"(ARTIWAY_MODEL_FOLDER|ARTIWAY_BEAT_FILE)=(\S+)", DOCKERFILE))
    assert mounted == {written["ARTIWAY_MODEL_FOLDER"], written["ARTIWAY_BEAT_FILE"].rpartition("/")[0]}
    assert worker["ResourceRequirements"] == [{"Type": "GPU", "Value": "1"}]


@pytest.mark.parametrize("pool", IMAGE_POOLS)
def test_worker_stop_timeout_covers_its_drain(template: Template, pool: str) -> None:
    release_s = re.search(r"^RELEASE_S = ([\d.]+)$", (ROOT / "worker/loop.py").read_text(), re.MULTILINE)
    assert release_s
    needed_s = float(environment(template, pool)["ARTIWAY_DRAIN_S"]) + RELEASE_CALL_S + float(release_s[1])
    # Spot takes the machine after 120 s, and ECS needs some of them to notice.
    assert needed_s < container(template, pool)["StopTimeout"] <= 90


@pytest.mark.parametrize("pool", IMAGE_POOLS)
def test_ecs_health_check_matches_the_worker_image(template: Template, pool: str) -> None:
    """ECS takes no notice of a health check in the image."""
    found = re.search(r"HEALTHCHECK [^\[]*CMD (\[.*\])", DOCKERFILE)
    assert found
    assert container(template, pool)["HealthCheck"]["Command"] == ["CMD", *json.loads(found[1])]


@pytest.mark.parametrize("pool", IMAGE_POOLS)
def test_worker_image_is_versioned_and_logs_declared(template: Template, pool: str) -> None:
    worker = container(template, pool)
    assert worker["Image"] == {"Fn::Sub": "${WorkerRepository.RepositoryUri}:${WorkerImageTag}"}
    assert template.resources["WorkerRepository"]["Properties"]["ImageTagMutability"] == "IMMUTABLE"
    assert worker["LogConfiguration"]["Options"]["awslogs-group"] == {"Ref": f"{pool.capitalize()}WorkersLogGroup"}


def test_without_an_image_no_worker_resources_exist(template: Template) -> None:
    kinds = ("AWS::ECS::", "AWS::AutoScaling::", "AWS::ApplicationAutoScaling::", "AWS::EC2::LaunchTemplate")
    machinery = {n: r for n, r in template.resources.items() if r["Type"].startswith(kinds)}
    assert machinery
    assert {resource.get("Condition") for resource in machinery.values()} == {"Workers"}
    assert template.body["Parameters"]["WorkerImageTag"]["Default"] == ""


@pytest.mark.parametrize("pool", IMAGE_POOLS)
def test_workers_scale_with_the_backlog_of_their_pool(template: Template, pool: str) -> None:
    assert "DesiredCount" not in of_pool(template, pool, "Service"), "a deployment would set the number back"
    assert template.value(of_pool(template, pool, "Range")["MinCapacity"]) == 0
    policy = of_pool(template, pool, "BacklogPolicy")["TargetTrackingScalingPolicyConfiguration"]
    queries = policy["CustomizedMetricSpecification"]["Metrics"]
    measured = {query["Id"]: query["MetricStat"]["Metric"] for query in queries if "MetricStat" in query}
    for name in ("waiting", "running"):
        assert {"Name": "pool", "Value": pool} in measured[name]["Dimensions"]
    (expression,) = [query["Expression"]["Fn::Sub"] for query in queries if query["ReturnData"]]
    assert set(re.findall(r"\b[a-z]+\b", expression)) == set(measured), "a metric that is fetched is used"
    assert "${WorkerSlots}" in expression


@pytest.mark.parametrize("pool", IMAGE_POOLS)
def test_waiting_messages_start_the_first_worker(template: Template, pool: str) -> None:
    alarm = of_pool(template, pool, "FirstAlarm")
    assert alarm["AlarmActions"] == [{"Ref": f"{pool.capitalize()}WorkersFirstPolicy"}]
    step = of_pool(template, pool, "FirstPolicy")["StepScalingPolicyConfiguration"]
    assert step["AdjustmentType"] == "ChangeInCapacity"
    assert step["StepAdjustments"] == [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}]


@pytest.mark.parametrize("pool", IMAGE_POOLS)
def test_machines_start_with_tasks_and_end_empty(template: Template, pool: str) -> None:
    machines = of_pool(template, pool, "Machines")
    provider = of_pool(template, pool, "Capacity")["AutoScalingGroupProvider"]
    assert machines["MinSize"] == "0"
    # A protected machine cannot be deleted with its stack, and goes on costing.
    assert "NewInstancesProtectedFromScaleIn" not in machines
    assert provider["ManagedTerminationProtection"] == "DISABLED"
    assert provider["ManagedDraining"] == "ENABLED"
    assert provider["ManagedScaling"]["Status"] == "ENABLED"
    assert machines["MaxSize"] == of_pool(template, pool, "Range")["MaxCapacity"]


def test_enterprise_workers_are_never_taken_back(template: Template) -> None:
    distribution = of_pool(template, "enterprise", "Machines")["MixedInstancesPolicy"]["InstancesDistribution"]
    assert distribution["OnDemandPercentageAboveBaseCapacity"] == 100


def test_a_container_cannot_become_its_machine(template: Template) -> None:
    data = of_pool(template, "gpu", "Machine")["LaunchTemplateData"]
    assert data["MetadataOptions"]["HttpTokens"] == "required"
    assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    script = data["UserData"]["Fn::Base64"]["Fn::Sub"]
    for setting in ("ECS_AWSVPC_BLOCK_IMDS=true", "ECS_DISABLE_PRIVILEGED=true"):
        assert setting in script
    assert data["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True


def test_workers_accept_no_traffic_and_send_tls(template: Template) -> None:
    group = of_pool(template, "gpu", "SecurityGroup")
    assert "SecurityGroupIngress" not in group
    assert [(rule["FromPort"], rule["ToPort"]) for rule in group["SecurityGroupEgress"]] == [(443, 443)]
    for admitting in ("ProxySecurityGroup", "CacheSecurityGroup", "DatabaseSecurityGroup"):
        assert "Workers" not in json.dumps(template.resources[f"Data{admitting}"])


@pytest.mark.parametrize("pool", IMAGE_POOLS)
def test_image_servers_of_the_operator_reach_the_worker(template: Template, pool: str) -> None:
    variables = environment(template, pool)
    for name in ("COMFYUI_URL", "COMFYUI_CHECKPOINT", "IMAGES_API_URL", "IMAGES_API_MODEL"):
        parameter = f"Worker{name.title().replace('_', '')}"
        assert variables[f"ARTIWAY_{name}"] == {"Ref": parameter}
        assert template.body["Parameters"][parameter]["Type"] == "String"
    egress = template.resources[f"{pool.capitalize()}WorkersImageServerEgress"]
    assert "OwnImageServerPort" in egress["Condition"]
    rule = egress["Properties"]
    assert rule["GroupId"] == {"Ref": f"{pool.capitalize()}WorkersSecurityGroup"}
    assert rule["FromPort"] == rule["ToPort"] == {"Ref": "WorkerImageServerPort"}
    assert rule["CidrIp"] == {"Ref": "WorkerImageServerCidr"}
    assert template.body["Parameters"]["WorkerImageServerPort"]["Default"] == 443


def test_workers_have_no_route_out_with_endpoints(template: Template) -> None:
    """Unless the operator asks for one."""
    for zone in "AB":
        route = template.resources[f"NetworkWorkerDefaultRoute{zone}"]
        table = {"Ref": f"NetworkWorkerRoutes{zone}"}
        assert route["Properties"]["RouteTableId"] == table
        routes = [one for one in template.of_type("AWS::EC2::Route").values() if one["RouteTableId"] == table]
        assert routes == [route["Properties"]]
        assert of_pool(template, "gpu", "Service")["NetworkConfiguration"]["AwsvpcConfiguration"]["Subnets"] == [
            {"Ref": "NetworkWorkerSubnetA"},
            {"Ref": "NetworkWorkerSubnetB"},
        ]
    conditions = template.body["Conditions"]
    (name,) = {template.resources[f"NetworkWorkerDefaultRoute{zone}"]["Condition"] for zone in "AB"}
    assert json.dumps(conditions[name]).count("Fn::Or") == 1
    assert {"Fn::Equals": [{"Ref": "HasWorkerEgress"}, "true"]} in conditions[name]["Fn::Or"]
    assert template.body["Parameters"]["HasWorkerEgress"]["Default"] == "false"


def test_workers_without_route_have_every_endpoint(template: Template) -> None:
    endpoints = template.of_type("AWS::EC2::VPCEndpoint").values()
    services = {str(one["ServiceName"]["Fn::Sub"]).rpartition("}.")[2] for one in endpoints}
    assert {"sqs", "lambda", "s3", "ecr.api", "ecr.dkr", "logs", "ecs", "ecs-agent", "ecs-telemetry"} <= services


@pytest.mark.parametrize("endpoint", ["NetworkS3Endpoint", "NetworkWorkerS3Endpoint"])
def test_s3_endpoint_reaches_own_buckets_only(template: Template, endpoint: str) -> None:
    statements = template.resources[endpoint]["Properties"]["PolicyDocument"]["Statement"]
    own, *others = statements
    assert own["Condition"] == {"StringEquals": {"aws:ResourceAccount": {"Ref": "AWS::AccountId"}}}
    assert all(one["Effect"] == "Allow" and one["Resource"] != "*" for one in others)
    assert not any(action.endswith("*") for one in statements for action in many(one["Action"]))


def test_worker_endpoint_writes_to_own_buckets_only(template: Template) -> None:
    _, *others = template.resources["NetworkWorkerS3Endpoint"]["Properties"]["PolicyDocument"]["Statement"]
    assert [one["Action"] for one in others] == ["s3:GetObject"]


def test_weights_outlive_every_artefact(template: Template) -> None:
    rules = template.resources["DataArtefactBucket"]["Properties"]["LifecycleConfiguration"]["Rules"]
    expiring = {rule.get("Prefix", "") for rule in rules if "ExpirationInDays" in rule}
    assert expiring == {"inputs/", "outputs/", "archive/"}
