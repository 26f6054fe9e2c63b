"""The preflight against recorded answers of AWS: a sound account, one lack at a time, and no credentials."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from tools import preflight

ROOT = Path(__file__).parents[3]
REGION = "us-east-1"
CERTIFICATE = f"arn:aws:acm:{REGION}:111122223333:certificate/1"
VALUES = {
    "IsProduction": "false",
    "WorkerInstanceType": "g5.xlarge",
    "WorkerOnDemandPercent": "50",
    "GpuWorkerMaximum": "4",
    "EnterpriseWorkerMaximum": "2",
    "NatKind": "gateway",
    "HasApiLogRole": "false",
    "DomainName": "api.example.com",
    "CertificateArn": CERTIFICATE,
    "SecondRegion": "us-west-2",
    "Environment": "staging",
}


class Refusal(Exception):
    """An error answer in place of a result."""

    def __init__(self, code: str, message: str = "") -> None:
        self.code, self.message = code, message


ABSENT = Refusal("ResourceNotFoundException")
# (service, operation) -> its answer, or a function from the request's parameters to an answer.
SOUND: dict[tuple[str, str], Any] = {
    ("lambda", "get_account_settings"): {
        "AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 1000}
    },
    ("ec2", "describe_instance_types"): {"InstanceTypes": [{"VCpuInfo": {"DefaultVCpus": 4}}]},
    ("ec2", "describe_vpcs"): {"Vpcs": [{}]},
    ("ec2", "describe_addresses"): {"Addresses": []},
    ("service-quotas", "get_service_quota"): lambda asked: {
        "Quota": {"Value": 5.0 if asked["QuotaCode"] in {preflight.VPCS, preflight.ADDRESSES} else 64.0}
    },
    ("iam", "get_account_summary"): {
        "SummaryMap": {
            "AttachedPoliciesPerRoleQuota": 10,
            "Roles": 20,
            "RolesQuota": 1000,
            "Policies": 5,
            "PoliciesQuota": 1500,
        }
    },
    ("iam", "get_role"): {
        "Role": {"Path": "/", "RoleName": "x", "RoleId": "A" * 16, "Arn": "a" * 20, "CreateDate": "2026-01-01"}
    },
    ("apigateway", "get_account"): {"cloudwatchRoleArn": "arn:aws:iam::111122223333:role/logs"},
    ("acm", "describe_certificate"): {"Certificate": {"DomainName": "*.example.com", "Status": "ISSUED"}},
    ("backup", "describe_region_settings"): {"ResourceTypeOptInPreference": {"Aurora": True, "RDS": True}},
    ("backup", "describe_backup_vault"): {"BackupVaultName": "artiway-staging-copies"},
    ("s3", "head_bucket"): {},
    ("cloudformation", "describe_stacks"): Refusal("ValidationError", "Stack with id x does not exist"),
    ("cloudcontrol", "get_resource"): ABSENT,
}


@cache
def client(service: str, region: str) -> Any:
    return boto3.client(service, region_name=region, aws_access_key_id="test", aws_secret_access_key="test")


class Answers:
    """Clients that answer from a table. A call that the table does not know fails the test."""

    def __init__(self, **changes: Any) -> None:
        self.table = SOUND | {tuple(key.split("__")): value for key, value in changes.items()}
        self.asked: list[tuple[str, str]] = []

    def __call__(self, service: str, region: str = REGION) -> Any:
        return _Answering(self, service, client(service, region))

    def account(self) -> preflight.Account:
        return preflight.Account("111122223333", "aws", self)


class _Answering:
    def __init__(self, answers: Answers, service: str, stubbed: Any) -> None:
        self._answers, self._service, self._client = answers, service, stubbed

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def call(**asked: Any) -> Any:
            self._answers.asked.append((self._service, operation))
            answer = self._answers.table[(self._service, operation)]
            answer = answer(asked) if callable(answer) else answer
            # The stub checks the request and the answer against the service's own model.
            with Stubber(self._client) as stub:
                if isinstance(answer, Refusal):
                    stub.add_client_error(operation, answer.code, answer.message)
                else:
                    stub.add_response(operation, answer, asked)
                return getattr(self._client, operation)(**asked)

        return call


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", REGION)


def lacks(answers: Answers, **values: str) -> list[preflight.Finding]:
    plan = preflight.Plan("artiway-staging", REGION, VALUES | values)
    return [one for one in preflight.findings(plan, answers.account()) if one.lack]


def test_a_sound_account_lacks_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    answers = Answers()
    plan = preflight.Plan("artiway-staging", REGION, VALUES)
    assert preflight.report(plan, answers.account()) == 0
    printed = capsys.readouterr().out
    assert "nothing is lacking" in printed
    assert "LACKS" not in printed
    assert set(answers.asked) == set(SOUND)  # each check read what it judges


def _small(asked: dict[str, str]) -> dict[str, Any]:
    return {"Quota": {"Value": 0.0 if asked["QuotaCode"] != preflight.VPCS else 1.0}}


LACKING: dict[str, tuple[dict[str, Any], str]] = {
    "concurrency": (
        {"lambda__get_account_settings": {
            "AccountLimit": {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 10}
        }},
        "10, 100 are needed",
    ),
    "quotas": ({"service-quotas__get_service_quota": _small}, "0, 16 are needed for 4 g5.xlarge"),
    "networks": ({"ec2__describe_vpcs": {"Vpcs": [{}] * 5}}, "5 of 5 are used, 1 more are needed"),
    "addresses": ({"ec2__describe_addresses": {"Addresses": [{}] * 5}}, "5 of 5 are used"),
    "roles": (
        {"iam__get_account_summary": {"SummaryMap": {
            "AttachedPoliciesPerRoleQuota": 10, "Roles": 990, "RolesQuota": 1000, "Policies": 5, "PoliciesQuota": 1500,
        }}},
        "10 more are allowed",
    ),
    "policies": (
        {"iam__get_account_summary": {"SummaryMap": {
            "AttachedPoliciesPerRoleQuota": 9, "Roles": 1, "RolesQuota": 1000, "Policies": 5, "PoliciesQuota": 1500,
        }}},
        "9, 10 are needed",
    ),
    "service roles": ({"iam__get_role": Refusal("NoSuchEntity")}, "service-linked role does not exist"),
    "logging role": ({"apigateway__get_account": {}}, "API Gateway has no role for CloudWatch"),
    "pending certificate": (
        {"acm__describe_certificate": {"Certificate": {"DomainName": "*.example.com", "Status": "EXPIRED"}}},
        "EXPIRED, not ISSUED",
    ),
    "other certificate": (
        {"acm__describe_certificate": {"Certificate": {"DomainName": "example.org", "Status": "ISSUED"}}},
        "it is for example.org, not for api.example.com",
    ),
    "backup setting": (
        {"backup__describe_region_settings": {"ResourceTypeOptInPreference": {"Aurora": False}}},
        "Aurora is not switched on",
    ),
    "vault": ({"backup__describe_backup_vault": ABSENT}, "artiway-staging-copies does not exist in us-west-2"),
    "bucket": (
        {"s3__head_bucket": Refusal("404")},
        "artiway-staging-copies-111122223333 does not exist in us-west-2",
    ),
    "dead stack": (
        {"cloudformation__describe_stacks": {"Stacks": [
            {"StackName": "artiway-staging", "CreationTime": "2026-01-01", "StackStatus": "ROLLBACK_COMPLETE"}
        ]}},
        "it takes no deployment",
    ),
    "names": (
        {"cloudcontrol__get_resource": lambda asked: (
            {"TypeName": asked["TypeName"]} if "ElastiCache::User" in asked["TypeName"] else ABSENT
        )},
        "of this name exists",
    ),
    "permission": ({"iam__get_account_summary": Refusal("AccessDenied", "no")}, "could not be read"),
}  # fmt: skip


@pytest.mark.parametrize("case", LACKING)
def test_each_lack_is_named_alone(case: str) -> None:
    changes, words = LACKING[case]
    found = lacks(Answers(**changes))
    assert found
    assert any(words in one.lack for one in found), found
    others = {"quotas": 4, "service roles": 4, "names": 2}
    assert len(found) <= others.get(case, 1), found


@pytest.mark.parametrize("case", LACKING)
def test_each_fix_is_a_command(case: str) -> None:
    for one in lacks(Answers(**LACKING[case][0])):
        for fix in one.fixes:
            assert shlex.split(fix)[0] in {"aws", "export"}, fix
            assert not re.search("[<>]", fix), fix


def test_certificates_of_other_regions_are_refused() -> None:
    (one,) = lacks(Answers(), CertificateArn=CERTIFICATE.replace(REGION, "eu-west-1"))
    assert "it is in eu-west-1, CloudFront takes certificates of us-east-1 only" in one.lack


def test_a_domain_without_certificate_is_a_lack() -> None:
    (one,) = lacks(Answers(), CertificateArn="")
    assert "together, or neither" in one.lack


def test_an_unexported_region_is_a_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    (one,) = lacks(Answers())
    assert "no region" in one.lack
    assert one.fixes[0].startswith(f"export AWS_REGION={REGION}")


def test_reservations_need_their_whole_quota() -> None:
    shared = {"AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 600}}
    (one,) = lacks(Answers(lambda__get_account_settings=shared), ConcurrencyQuota="1000")
    assert one.lack == "1000, 1400 are needed"
    assert lacks(Answers(lambda__get_account_settings=shared), ConcurrencyQuota="none") == []


def test_an_existing_stack_owns_its_names() -> None:
    stack = {"StackName": "artiway-staging", "CreationTime": "2026-01-01", "StackStatus": "UPDATE_COMPLETE"}
    answers = Answers(cloudformation__describe_stacks={"Stacks": [stack]}, ec2__describe_vpcs={"Vpcs": [{}] * 5})
    assert lacks(answers) == []
    assert ("cloudcontrol", "get_resource") not in answers.asked


def test_unused_options_are_not_asked_for() -> None:
    answers = Answers()
    unused = dict.fromkeys(("DomainName", "CertificateArn", "SecondRegion"), "")
    assert lacks(answers, NatKind="instance", HasApiLogRole="true", **unused) == []
    assert {"acm", "apigateway", "backup", "s3"}.isdisjoint(service for service, _ in answers.asked)
    assert ("ec2", "describe_addresses") not in answers.asked


def test_missing_credentials_end_with_two() -> None:
    bare = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "AWS_EC2_METADATA_DISABLED": "true"}
    nowhere = {"AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent"}
    command = [sys.executable, "-m", "tools.preflight", "--config-env", "staging"]
    done = subprocess.run(command, cwd=ROOT, env=bare | nowhere, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("No AWS credentials")


def test_expired_credentials_end_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(_plan: preflight.Plan) -> preflight.Account:
        raise ClientError({"Error": {"Code": "ExpiredToken", "Message": "expired"}}, "GetCallerIdentity")

    assert preflight.main(["--config-env", "staging"], refuse) == 2
    assert "ExpiredToken" in capsys.readouterr().err


def test_unknown_environments_end_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert preflight.main(["--config-env", "moon"]) == 2
    assert "samconfig.toml has no section 'moon'" in capsys.readouterr().err


@pytest.mark.parametrize("environment", ["default", "staging", "prod", "dr"])
def test_every_environment_can_be_planned(environment: str) -> None:
    plan = preflight.Plan.read(environment, {"LogLevel": "ERROR"})
    assert plan.stack.startswith("artiway-")
    assert plan.values["LogLevel"] == "ERROR"
    database = "AWS::RDS::DBInstance" if environment == "default" else "AWS::RDS::DBCluster"
    names = set(preflight.fixed_names(plan))
    assert {("AWS::ElastiCache::User", f"artiway-{plan.values['Environment']}"), (database, plan.stack)} <= names
    assert ("AWS::Logs::LogGroup", f"/artiway/{plan.stack}/http-api") in names
    assert len([kind for kind, _ in names if kind.startswith("AWS::RDS::DB")]) <= 2


def test_it_only_reads() -> None:
    text = Path(sys.modules["tools.preflight"].__file__ or "").read_text()
    called = set(re.findall(r"\.((?:get|describe|head|list|create|put|delete|update|request)_[a-z_]+)[(,]", text))
    assert called
    assert {name for name in called if not name.startswith(("get_", "describe_", "head_", "list_"))} == set()
