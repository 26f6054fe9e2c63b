"""Reads what a deployment needs of an AWS account and prints what is missing: `make preflight ENV=staging`.

It only reads. Exit status: 0 nothing is missing, 1 something is missing or could not be read, 2 it could not start.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from local import nesting
from local import template as local_template

ROOT = Path(__file__).parent.parent
CERTIFICATE_REGION = "us-east-1"  # CloudFront takes certificates of this region only
LAMBDA_WANTED = 100  # without reservations; the queues' consumers alone may use 80
MANAGED_POLICIES_PER_ROLE = 10
ROLES_WANTED, POLICIES_WANTED = 60, 30
# Quota codes of Service Quotas.
ON_DEMAND_G, SPOT_G, VPCS, ADDRESSES = "L-DB2E81BA", "L-3819A6DF", "L-F678F1CE", "L-0263D0A3"
SERVICE_ROLES = {
    "AWSServiceRoleForECS": "ecs.amazonaws.com",
    "AWSServiceRoleForAutoScaling": "autoscaling.amazonaws.com",
    "AWSServiceRoleForApplicationAutoScaling_ECSService": "ecs.application-autoscaling.amazonaws.com",
    "AWSServiceRoleForEC2Spot": "spot.amazonaws.com",
}
CREATE_LOGGING_ROLE = (
    "aws iam create-role --role-name artiway-apigateway-logs --assume-role-policy-document "
    '\'{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"apigateway.amazonaws.com"},'
    '"Action":"sts:AssumeRole"}]}\' && aws iam attach-role-policy --role-name artiway-apigateway-logs --policy-arn '
    "arn:<partition>:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs"
)
SET_LOGGING_ROLE = (
    "aws apigateway update-account --region <region> --patch-operations "
    "op=replace,path=/cloudwatchRoleArn,value=arn:<partition>:iam::<account>:role/artiway-apigateway-logs"
)
# Types whose names the template fixes, and the property that holds the name and identifies the resource.
NAMED = {
    "AWS::ECR::Repository": "RepositoryName",
    "AWS::ElastiCache::ReplicationGroup": "ReplicationGroupId",
    "AWS::ElastiCache::User": "UserId",
    "AWS::ElastiCache::UserGroup": "UserGroupId",
    "AWS::KMS::Alias": "AliasName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::RDS::DBCluster": "DBClusterIdentifier",
    "AWS::RDS::DBInstance": "DBInstanceIdentifier",
    "AWS::RDS::DBProxy": "DBProxyName",
}
# A stack in one of these states takes no deployment.
DEAD_STACKS = {"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED", "REVIEW_IN_PROGRESS"}


@dataclass(frozen=True)
class Plan:
    """What will be deployed: a section of samconfig.toml over the template's defaults."""

    stack: str
    region: str
    values: Mapping[str, str]
    given: Mapping[str, str] = field(default_factory=dict)  # by samconfig.toml

    @classmethod
    def read(cls, environment: str, overrides: dict[str, str], root: Path = ROOT) -> Plan:
        config = tomllib.loads((root / "samconfig.toml").read_text())
        if environment not in config:
            raise ValueError(
                f"samconfig.toml has no section {environment!r}: {', '.join(sorted(config.keys() - {'version'}))}"
            )
        section = config[environment]
        given = dict(pair.split("=", 1) for pair in section["deploy"]["parameters"]["parameter_overrides"])
        defaults = {name: str(one["Default"]) for name, one in body(root)["Parameters"].items() if "Default" in one}
        settings = section["global"]["parameters"]
        return cls(settings["stack_name"], settings["region"], defaults | given | overrides, given)

    def number(self, name: str) -> int:
        return int(self.values.get(name) or 0)

    def is_set(self, name: str) -> bool:
        return self.values.get(name, "false") == "true"


@dataclass(frozen=True)
class Account:
    """The caller's account in a region. `client` gives the client of a service, in another region if one is named."""

    number: str
    partition: str
    client: Callable[..., Any]

    def quota(self, service: str, code: str) -> float:
        answer = self.client("service-quotas").get_service_quota(ServiceCode=service, QuotaCode=code)
        return float(answer["Quota"]["Value"])


@dataclass(frozen=True)
class Finding:
    subject: str
    lack: str = ""
    fixes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        if not self.lack:
            return [f"  ok     {self.subject}"]
        return [f"  LACKS  {self.subject}: {self.lack}", *(f"           {fix}" for fix in self.fixes)]


Check = Callable[[Plan, Account], Iterator[Finding]]


def check_region(plan: Plan, _account: Account) -> Iterator[Finding]:
    exported = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    is_right = exported == plan.region
    lack = "" if is_right else f"the aws commands would use {exported or 'no region'}, the stack is in {plan.region}"
    yield Finding("region", lack, (f"export AWS_REGION={plan.region} AWS_DEFAULT_REGION={plan.region}",))


def check_concurrency(plan: Plan, account: Account) -> Iterator[Finding]:
    """Reservations are made for a quota (ConcurrencyQuota). They need all of it: other stacks may have some of it."""
    limit = account.client("lambda").get_account_settings()["AccountLimit"]
    others = (
        0 if stack_status(plan, account) else limit["ConcurrentExecutions"] - limit["UnreservedConcurrentExecutions"]
    )
    quota = plan.values.get("ConcurrencyQuota", "none")
    wanted = LAMBDA_WANTED if quota == "none" else int(quota) + others
    lack = "" if limit["ConcurrentExecutions"] >= wanted else f"{limit['ConcurrentExecutions']}, {wanted} are needed"
    yield Finding("Lambda concurrency", lack, (request_quota("lambda", "L-B99A9384", wanted, plan),))


def check_gpus(plan: Plan, account: Account) -> Iterator[Finding]:
    """Both pools at their maximum. Quotas count vCPUs; on-demand and Spot machines have one each."""
    kind = plan.values["WorkerInstanceType"]
    types = account.client("ec2").describe_instance_types(InstanceTypes=[kind])["InstanceTypes"]
    cores = types[0]["VCpuInfo"]["DefaultVCpus"]
    shared, share = plan.number("GpuWorkerMaximum"), plan.number("WorkerOnDemandPercent")
    on_demand = -(-shared * share // 100) + plan.number("EnterpriseWorkerMaximum")
    for subject, code, machines in (
        ("vCPUs of G machines, on demand", ON_DEMAND_G, on_demand),
        ("vCPUs of G machines, Spot", SPOT_G, shared if share < 100 else 0),
    ):
        wanted, limit = machines * cores, account.quota("ec2", code) if machines else 0
        lack = "" if limit >= wanted else f"{limit:.0f}, {wanted} are needed for {machines} {kind}"
        yield Finding(subject, lack, (request_quota("ec2", code, wanted, plan),))


def check_network(plan: Plan, account: Account) -> Iterator[Finding]:
    if stack_status(plan, account):
        return  # it has its own already
    ec2 = account.client("ec2")
    is_gateway = plan.values.get("NatKind", "gateway") == "gateway"
    taken = len(ec2.describe_vpcs()["Vpcs"])
    yield room(account, plan, "VPCs", ("vpc", VPCS), taken=taken, wanted=1)
    if is_gateway:
        taken = len(ec2.describe_addresses()["Addresses"])
        wanted = 2 if plan.is_set("IsProduction") else 1
        yield room(account, plan, "elastic addresses", ("ec2", ADDRESSES), taken=taken, wanted=wanted)


def room(account: Account, plan: Plan, subject: str, quota: tuple[str, str], *, taken: int, wanted: int) -> Finding:
    limit = account.quota(*quota)
    lack = "" if limit - taken >= wanted else f"{taken} of {limit:.0f} are used, {wanted} more are needed"
    return Finding(subject, lack, (request_quota(*quota, taken + wanted, plan),))


def check_iam(_plan: Plan, account: Account) -> Iterator[Finding]:
    counts = account.client("iam").get_account_summary()["SummaryMap"]
    per_role = counts["AttachedPoliciesPerRoleQuota"]
    lack = "" if per_role >= MANAGED_POLICIES_PER_ROLE else f"{per_role}, {MANAGED_POLICIES_PER_ROLE} are needed"
    yield Finding("policies per role", lack)
    for subject, wanted in (("Roles", ROLES_WANTED), ("Policies", POLICIES_WANTED)):
        free = counts[f"{subject}Quota"] - counts[subject]
        yield Finding(subject.lower(), "" if free >= wanted else f"{free} more are allowed, {wanted} are needed")


def check_service_roles(plan: Plan, account: Account) -> Iterator[Finding]:
    iam = account.client("iam")
    for role, service in SERVICE_ROLES.items():
        if service.startswith("spot") and plan.number("WorkerOnDemandPercent") == 100:
            continue
        exists = found(partial(iam.get_role, RoleName=role), "NoSuchEntity")
        lack = "" if exists else "the service-linked role does not exist"
        yield Finding(role, lack, (f"aws iam create-service-linked-role --aws-service-name {service}",))


def check_logging_role(plan: Plan, account: Account) -> Iterator[Finding]:
    """One for the account and region. The template makes it unless HasApiLogRole is false."""
    if plan.is_set("HasApiLogRole"):
        return
    has_role = account.client("apigateway").get_account().get("cloudwatchRoleArn")
    words = {"<region>": plan.region, "<account>": account.number, "<partition>": account.partition}
    fixes = tuple(
        re.sub("<[a-z]+>", lambda word: words[word[0]], fix) for fix in (CREATE_LOGGING_ROLE, SET_LOGGING_ROLE)
    )
    lack = "" if has_role else "API Gateway has no role for CloudWatch, so the stages with access logs fail"
    yield Finding("API Gateway logging role", lack, fixes)


def check_certificate(plan: Plan, account: Account) -> Iterator[Finding]:
    domain, arn = plan.values.get("DomainName", ""), plan.values.get("CertificateArn", "")
    if not domain and not arn:
        return
    yield Finding("certificate", certificate_fault(account, domain, arn), (
        f"aws acm request-certificate --region {CERTIFICATE_REGION} --domain-name {domain} --validation-method DNS",
    ))  # fmt: skip


def certificate_fault(account: Account, domain: str, arn: str) -> str:
    region = arn.split(":")[3] if arn.count(":") >= 5 else ""
    if not domain or not arn:
        return "DomainName and CertificateArn are given together, or neither"
    if region != CERTIFICATE_REGION:
        return f"it is in {region or 'no region'}, CloudFront takes certificates of {CERTIFICATE_REGION} only"
    one = account.client("acm", CERTIFICATE_REGION).describe_certificate(CertificateArn=arn)["Certificate"]
    names = {*one.get("SubjectAlternativeNames", []), one["DomainName"]}
    parent = f"*.{domain.partition('.')[2]}"
    if one["Status"] != "ISSUED":
        return f"its status is {one['Status']}, not ISSUED"
    return "" if {domain, parent} & names else f"it is for {', '.join(sorted(names))}, not for {domain}"


def check_second_region(plan: Plan, account: Account) -> Iterator[Finding]:
    """Where backups and pictures are copied to. stacks/replica.yaml makes the places."""
    region, name = plan.values.get("SecondRegion", ""), f"{plan.stack}-copies"
    if not region:
        return
    types = account.client("backup").describe_region_settings()["ResourceTypeOptInPreference"]
    kind = "Aurora" if plan.values.get("DatabaseKind", "aurora") == "aurora" else "RDS"
    setting = f"aws backup update-region-settings --resource-type-opt-in-preference {kind}=true"
    yield Finding("AWS Backup", "" if types.get(kind) else f"{kind} is not switched on", (setting,))
    make = (
        f"aws cloudformation deploy --region {region} --stack-name {name} --template-file stacks/replica.yaml "
        f"--parameter-overrides Name={plan.stack}"
    )
    vaults = account.client("backup", region)
    exists = found(partial(vaults.describe_backup_vault, BackupVaultName=name), "ResourceNotFoundException")
    yield Finding("vault of copies", "" if exists else f"{name} does not exist in {region}", (make,))
    bucket = f"{name}-{account.number}"
    exists = found(partial(account.client("s3", region).head_bucket, Bucket=bucket), "404")
    yield Finding("bucket of copies", "" if exists else f"{bucket} does not exist in {region}", (make,))


def check_names(plan: Plan, account: Account) -> Iterator[Finding]:
    """A failed or deleted stack may leave resources whose fixed names the next one needs."""
    status = stack_status(plan, account)
    if status in DEAD_STACKS:
        lack, fix = (
            f"its state is {status}: it takes no deployment",
            f"aws cloudformation delete-stack --stack-name {plan.stack}",
        )
        yield Finding(f"stack {plan.stack}", lack, (fix,))
    if status:
        return
    control = account.client("cloudcontrol")
    taken = [
        (kind, name)
        for kind, name in fixed_names(plan)
        if found(
            partial(control.get_resource, TypeName=kind, Identifier=name),
            "ResourceNotFoundException",
            "UnsupportedActionException",
        )
    ]
    for kind, name in taken:
        fix = f"aws cloudcontrol delete-resource --type-name {kind} --identifier {name}"
        yield Finding(name, f"a {kind} of this name exists, but no stack {plan.stack}. Keep its data, then:", (fix,))
    if not taken:
        yield Finding("fixed names")


CHECKS: tuple[Check, ...] = (
    check_region, check_concurrency, check_gpus, check_network, check_iam, check_service_roles, check_logging_role,
    check_certificate, check_second_region, check_names,
)  # fmt: skip


def fixed_names(plan: Plan, root: Path = ROOT) -> list[tuple[str, str]]:
    """Names that depend on the stack's name and its parameters only, of resources that the plan makes."""
    template = body(root)
    known = {**plan.values, "AWS::StackName": plan.stack, "AWS::Region": plan.region, "Name": plan.stack}
    absent = "AWS::RDS::DBInstance" if plan.values.get("DatabaseKind", "aurora") == "aurora" else "AWS::RDS::DBCluster"
    named = (
        (one["Type"], one.get("Properties", {}).get(NAMED.get(one["Type"], ""))) for one in resources(template, root)
    )
    return sorted({(kind, text) for kind, name in named if kind != absent and (text := resolved(name, known))})


def resources(template: Any, root: Path) -> Iterator[Any]:
    """Of the root stack and of the nested ones, which know its name as the parameter `Name`."""
    for one in template["Resources"].values():
        if one["Type"] == nesting.APPLICATION:
            yield from body(root, Path(one["Properties"]["Location"]))["Resources"].values()
        else:
            yield one


def resolved(value: Any, known: Mapping[str, str]) -> str:
    """The text of a name, or nothing if it depends on a resource or on the stack that holds it."""
    match value:
        case str():
            text = value
        case {"Ref": str(name)}:
            text = f"${{{name}}}"
        case {"Fn::Sub": str(text)}:
            pass
        case _:
            return ""
    text = re.sub(r"\$\{([\w:]+)\}", lambda found: known.get(found[1], found[0]), text)
    return "" if "${" in text else text


@cache
def body(root: Path, file: Path = Path("template.yaml")) -> Any:
    return local_template.read(root / file)


def stack_status(plan: Plan, account: Account) -> str:
    cloudformation = account.client("cloudformation")
    try:
        return str(cloudformation.describe_stacks(StackName=plan.stack)["Stacks"][0]["StackStatus"])
    except ClientError as error:
        if "does not exist" in error.response["Error"].get("Message", ""):
            return ""
        raise


def found(read: Callable[[], object], *absent: str) -> bool:
    try:
        read()
    except ClientError as error:
        if error.response["Error"]["Code"] in absent:
            return False
        raise
    return True


def request_quota(service: str, code: str, wanted: int, plan: Plan) -> str:
    return (
        f"aws service-quotas request-service-quota-increase --region {plan.region} --service-code {service} "
        f"--quota-code {code} --desired-value {wanted}"
    )


def findings(plan: Plan, account: Account) -> Iterator[Finding]:
    """Each check on its own: a call that is refused does not hide what the others find."""
    for check in CHECKS:
        subject = check.__name__.removeprefix("check_").replace("_", " ")
        try:
            yield from check(plan, account)
        except ClientError as error:
            yield Finding(subject, f"could not be read: {error}")
        except BotoCoreError as error:
            yield Finding(subject, f"could not be read: {error}")


def connect(plan: Plan) -> Account:
    import boto3

    session = boto3.Session()
    clients: dict[tuple[str, str], Any] = {}

    def client(service: str, region: str = plan.region) -> Any:
        key = (service, region)
        if key not in clients:
            clients[key] = session.client(service, region_name=region)  # type: ignore[call-overload]
        return clients[key]

    caller = client("sts").get_caller_identity()
    return Account(caller["Account"], caller["Arn"].split(":")[1], client)


def report(plan: Plan, account: Account) -> int:
    print(f"{plan.stack} in {plan.region}, account {account.number}")
    lacks = 0
    for finding in findings(plan, account):
        lacks += bool(finding.lack)
        print("\n".join(finding.lines()))
    print(f"{lacks} lacking" if lacks else "nothing is lacking")
    return 1 if lacks else 0


def main(arguments: list[str], open_account: Callable[[Plan], Account] = connect) -> int:
    parser = argparse.ArgumentParser(prog="preflight", description=__doc__)
    parser.add_argument("--config-env", default="default", help="section of samconfig.toml (default: default)")
    parser.add_argument("--parameter-overrides", nargs="*", default=[], metavar="Name=value")
    options = parser.parse_args(arguments)
    try:
        plan = Plan.read(options.config_env, dict(pair.split("=", 1) for pair in options.parameter_overrides))
        account = open_account(plan)
    except (NoCredentialsError, PartialCredentialsError):
        print("No AWS credentials. Run `aws configure`, `aws sso login`, or export AWS_PROFILE.", file=sys.stderr)
        return 2
    except (BotoCoreError, ClientError, ValueError) as error:
        print(f"preflight: {error}", file=sys.stderr)
        return 2
    return report(plan, account)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
