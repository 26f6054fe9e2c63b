"""Turns template.yaml and stacks/ into the CloudFormation template that the emulator deploys. It has no side effects.

It refuses every resource type that it does not know, by name: a resource left out silently would be missed much later.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local import nesting
from local.lambdas import DEFAULT_SANDBOXES, PROXY_VARIABLE, REGION, Function

Json = dict[str, Any]

# The types that the emulator deploys.
KEPT = {
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Authorizer",
    "AWS::ApiGatewayV2::Integration",
    "AWS::ApiGatewayV2::Route",
    "AWS::ApiGatewayV2::Stage",
    "AWS::CloudFormation::CustomResource",
    "AWS::Events::EventBus",
    "AWS::Events::Rule",
    "AWS::IAM::Role",
    "AWS::KMS::Alias",
    "AWS::KMS::Key",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Function",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::SNS::Subscription",
    "AWS::SNS::Topic",
    "AWS::SQS::Queue",
    "AWS::SSM::Parameter",
    "AWS::Scheduler::Schedule",
    "AWS::Scheduler::ScheduleGroup",
    "AWS::SecretsManager::Secret",
    "AWS::StepFunctions::StateMachine",
}

# Types that the local stack replaces (servers, edge) or does not need (permissions, telemetry).
DROPPED = {
    "AWS::ApiGateway::Account",
    "AWS::ApiGateway::Deployment",
    "AWS::ApiGateway::RestApi",
    "AWS::ApiGateway::Stage",
    "AWS::ApiGatewayV2::ApiMapping",
    "AWS::ApiGatewayV2::Deployment",
    "AWS::ApiGatewayV2::DomainName",
    "AWS::IAM::InstanceProfile",
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::Policy",
    "AWS::IAM::RolePolicy",
    "AWS::Lambda::LayerVersion",
    "AWS::Lambda::Permission",
    "AWS::Logs::MetricFilter",
    "AWS::Logs::ResourcePolicy",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::QueuePolicy",
    "AWS::SecretsManager::ResourcePolicy",
    "AWS::SecretsManager::RotationSchedule",
    "AWS::SecretsManager::SecretTargetAttachment",
    "AWS::XRay::Group",
    "AWS::XRay::SamplingRule",
}
DROPPED_SERVICES = {
    "ApplicationAutoScaling",
    "AutoScaling",
    "Backup",
    "Budgets",
    "CertificateManager",
    "CloudFront",
    "CloudWatch",
    "CodeDeploy",
    "EC2",
    "ECR",
    "ECS",
    "ElastiCache",
    "RDS",
    "Route53",
    "WAFv2",
}

# Properties that refer to dropped resources or have no effect in the emulator.
STRIPPED = {
    "AWS::ApiGatewayV2::Stage": {"DeploymentId", "AccessLogSettings", "Description"},
    "Custom::Migration": {"Layer"},
    "Custom::Recovery": {"Layer"},
    "AWS::S3::Bucket": {"BucketEncryption", "LoggingConfiguration", "ReplicationConfiguration"},
    "AWS::IAM::Role": {"Policies", "ManagedPolicyArns", "PermissionsBoundary"},
    "AWS::Lambda::Function": {"Code", "VpcConfig", "Layers", "SnapStart", "KmsKeyArn", "ReservedConcurrentExecutions"},
}

ALIAS = "AWS::Lambda::Alias"
INTRINSICS = {
    "And", "Base64", "Equals", "FindInMap", "GetAtt", "If", "Join", "Not", "Or", "Select", "Split", "Sub",
}  # fmt: skip
CUSTOM_RESOURCE_SECONDS = 60
SUB = re.compile(r"\$\{([^!}][^}]*)\}")
# CloudFormation inserts numbers into the definition's text. Here the definition is parsed first, so they are quoted.
QUOTED_SECONDS = re.compile(r'("\w*Seconds": )"(\$\{\w+\})"')
EXECUTE_API = re.compile(
    r"(?:https|wss)://\$\{(\w+)\}\.execute-api\.\$\{AWS::Region\}\.(?:amazonaws\.com|\$\{AWS::URLSuffix\})"
)

ANY_METHOD = "x-amazon-apigateway-any-method"


class TemplateRefused(ValueError):
    """The template holds a part that the local stack cannot run as AWS does."""


@dataclass(frozen=True)
class Api:
    api_id: str
    stage: str


@dataclass(frozen=True)
class StreamRoute:
    """A path of the REST API. The edge calls its function, because the emulator does not stream."""

    path: str
    function: str


@dataclass(frozen=True)
class LocalTemplate:
    body: Json
    functions: Mapping[str, Function]
    http: Api
    websocket: Api | None
    streams: Sequence[StreamRoute] = ()


def load(path: Path) -> Json:
    """The whole platform as one SAM template, the resources of its nested applications included."""
    template = read(path)
    folder = path.parent
    locations = {n: r["Properties"]["Location"] for n, r in _of_type(template["Resources"], nesting.APPLICATION)}
    bodies = {location: _parsed(folder / location) for location in set(locations.values())}
    try:
        return nesting.flatten(template, {name: bodies[location] for name, location in locations.items()})
    except nesting.NestingRefused as error:
        raise TemplateRefused(str(error)) from error


def read(path: Path) -> Json:
    """One template as SAM packages it: state machines inlined, code and layers replaced by their folders."""
    import yaml

    template = _parsed(path)
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        match resource["Type"]:
            case "AWS::Serverless::Function" | "AWS::Serverless::LayerVersion":
                key = "CodeUri" if "Function" in resource["Type"] else "ContentUri"
                folder = properties.get(key) or template.get("Globals", {}).get("Function", {}).get(key)
                if not isinstance(folder, str) or not (path.parent / folder).is_dir():
                    raise TemplateRefused(f"{name}: {key} {folder!r} is no folder beside the template")
                properties[key] = {"Bucket": "local", "Key": folder}
            case "AWS::Serverless::StateMachine" if "DefinitionUri" in properties:
                definition = path.parent / properties.pop("DefinitionUri")
                properties["Definition"] = yaml.safe_load(definition.read_text())
    return template


def _parsed(path: Path) -> Json:
    import yaml
    from samtranslator.yaml_helper import intrinsics_multi_constructor

    # SAM's own reader takes four times as long: it does without libyaml.
    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    Loader.add_multi_constructor("!", intrinsics_multi_constructor)
    try:
        template: Json = yaml.load(path.read_text(), Loader)  # noqa: S506 (a safe loader)
    except (OSError, yaml.YAMLError) as error:
        raise TemplateRefused(f"{path} cannot be read: {error}") from error
    return template


def translate(template: Json, parameters: Json | None = None) -> Json:
    """SAM's own transform, offline, with the values of parameters that the stack is given."""
    import logging

    import boto3
    from samtranslator.parser.parser import Parser
    from samtranslator.public.exceptions import InvalidDocumentException
    from samtranslator.translator.translator import Translator

    logging.getLogger("samtranslator").setLevel(
        logging.ERROR
    )  # it warns of the service's settings, which it cannot read
    translator = Translator(None, Parser(), boto_session=boto3.Session(region_name=REGION))
    try:
        # The emulator enforces no policies, so the names of managed policies need no ARNs.
        translated: Json = translator.translate(copy.deepcopy(template), parameters or {}, get_managed_policy_map=dict)
    except InvalidDocumentException as error:
        raise TemplateRefused("; ".join(str(cause.message) for cause in error.causes)) from error
    return translated


def localise(
    template: Json,
    *,
    root: Path,
    aws_url: str,
    lambda_url: str,
    variables: Mapping[str, str],
    sandboxes: int = DEFAULT_SANDBOXES,
) -> LocalTemplate:
    """Keep the resources that the emulator runs, point endpoints at this machine, refuse dangling references."""
    template = _without_aliases(copy.deepcopy(template))
    resources: Json = template["Resources"]
    streams = _streams(resources)
    dropped = _drop(resources)
    functions = {
        name: _localise_function(name, resource["Properties"], root, lambda_url, variables, sandboxes)
        for name, resource in _of_type(resources, "AWS::Lambda::Function")
    }
    apis = _localise_apis(resources)
    for name, resource in resources.items():
        properties = resource.setdefault("Properties", {})
        for unwanted in STRIPPED.get(resource["Type"], set()):
            properties.pop(unwanted, None)
        if "ServiceToken" in properties:
            # Without this the deployment waits an hour for a custom resource whose function failed.
            properties["ServiceTimeout"] = CUSTOM_RESOURCE_SECONDS
        if resource["Type"] == "AWS::StepFunctions::StateMachine":
            lines = properties["DefinitionString"]["Fn::Join"][1]
            lines[:] = [QUOTED_SECONDS.sub(r"\1\2", line) for line in lines]
        if resource["Type"] == "AWS::S3::Bucket":
            own = resource.get("Metadata", {}).get("Name", name)  # its name in a nested application
            properties.setdefault("BucketName", f"artiway-{own.lower()}")
        depends_on = resource.pop("DependsOn", [])
        wanted = [one for one in ([depends_on] if isinstance(depends_on, str) else depends_on) if one not in dropped]
        resource |= {"DependsOn": wanted} if wanted else {}
    outputs = template.get("Outputs", {})
    template["Outputs"] = {k: v for k, v in outputs.items() if not dropped & {name for name, _ in references(v)}}
    template = _rewrite_endpoints(template, aws_url)
    template.pop("Metadata", None)
    _check(template)
    http = [api for kind, api in apis if kind == "HTTP"]
    websocket = [api for kind, api in apis if kind == "WEBSOCKET"]
    if len(http) != 1 or len(websocket) > 1:
        raise TemplateRefused("the edge serves exactly one HTTP API and at most one WebSocket API")
    return LocalTemplate(template, functions, http[0], websocket[0] if websocket else None, streams)


def _without_aliases(template: Json) -> Json:
    """Only one release runs here: a reference to a function's alias means the function."""
    resources: Json = template["Resources"]
    functions = {name: _function_of(alias["Properties"]["FunctionName"]) for name, alias in _of_type(resources, ALIAS)}
    for name in [*functions, *(version for version, _ in _of_type(resources, "AWS::Lambda::Version"))]:
        del resources[name]

    def function_of(name: str) -> Any:
        return {"Fn::GetAtt": [functions[name], "Arn"]} if name in functions else None

    without: Json = nesting.replaced(template, function_of)
    return without


def _function_of(reference: Json) -> str:
    return str(reference["Ref"] if "Ref" in reference else reference["Fn::GetAtt"][0])


def _of_type(resources: Json, kind: str) -> list[tuple[str, Json]]:
    return [(name, resource) for name, resource in resources.items() if resource["Type"] == kind]


def _drop(resources: Json) -> set[str]:
    types = {name: resource["Type"] for name, resource in resources.items()}
    dropped = {n for n, kind in types.items() if kind in DROPPED or kind.split("::")[1] in DROPPED_SERVICES}
    unknown = {n: k for n, k in types.items() if n not in dropped and k not in KEPT and not k.startswith("Custom::")}
    if unknown:
        listed = ", ".join(f"{name} ({kind})" for name, kind in sorted(unknown.items()))
        raise TemplateRefused(f"local/template.py neither deploys nor drops: {listed}")
    for name in dropped:
        del resources[name]
    return dropped


def _streams(resources: Json) -> list[StreamRoute]:
    """The routes of REST APIs, each of which streams from a function."""
    routes = []
    for name, resource in _of_type(resources, "AWS::ApiGateway::RestApi"):
        for path, methods in resource["Properties"]["Body"]["paths"].items():
            for method, operation in methods.items():
                integration = operation["x-amazon-apigateway-integration"]
                called = {one for one, _ in references(integration["uri"]) if one in resources}
                if integration.get("responseTransferMode") != "STREAM" or method != ANY_METHOD or len(called) != 1:
                    raise TemplateRefused(f"{name}: {method} {path} does not stream all methods from one function")
                routes.append(StreamRoute(path, called.pop()))
    return routes


def _localise_function(
    name: str, properties: Json, root: Path, lambda_url: str, variables: Mapping[str, str], sandboxes: int
) -> Function:
    folder = (root / properties["Code"]["S3Key"]).resolve()
    reserved = properties.get("ReservedConcurrentExecutions")
    concurrency = min(reserved, sandboxes) if isinstance(reserved, int) else sandboxes
    # The emulator sends the calls of a function without code to the address in the proxy variable.
    properties["FunctionName"] = name
    environment = properties.setdefault("Environment", {}).setdefault("Variables", {})
    environment |= {key: value for key, value in variables.items() if key in environment}
    environment[PROXY_VARIABLE] = f"{lambda_url}/proxy/{name}"
    return Function(name, folder, (root / "layers/core").resolve(), concurrency)


def _localise_apis(resources: Json) -> list[tuple[str, Api]]:
    """Give each API a fixed id for the edge, and expand its OpenAPI body, which the emulator ignores, to resources."""
    apis = []
    for name, resource in _of_type(resources, "AWS::ApiGatewayV2::Api"):
        properties = resource["Properties"]
        api_id = hashlib.sha256(name.encode()).hexdigest()[:8]
        body = properties.pop("Body", None)
        properties["Tags"] = {"ms-custom-id": api_id}
        if body is not None:
            properties["Name"] = name
            properties["ProtocolType"] = "HTTP"
            resources |= _expand(name, body)
        stages = [
            stage["Properties"]["StageName"]
            for _, stage in _of_type(resources, "AWS::ApiGatewayV2::Stage")
            if stage["Properties"]["ApiId"] == {"Ref": name}
        ]
        if len(stages) != 1 or not isinstance(stages[0], str):
            raise TemplateRefused(f"{name} needs one stage with a plain name, found {stages}")
        apis.append((properties["ProtocolType"], Api(api_id, stages[0])))
    return apis


def _expand(api: str, body: Json) -> Json:
    expanded: Json = {}
    api_ref = {"ApiId": {"Ref": api}}
    for name, scheme in body.get("components", {}).get("securitySchemes", {}).items():
        settings = scheme.get("x-amazon-apigateway-authorizer", {})
        if settings.get("type") != "request":
            raise TemplateRefused(f"{api}: only Lambda authorizers of type request are known, not {name}")
        expanded[f"{api}Authorizer{name}"] = _resource(
            "Authorizer",
            **api_ref,
            Name=name,
            AuthorizerType="REQUEST",
            AuthorizerUri=settings["authorizerUri"],
            AuthorizerPayloadFormatVersion=settings.get("authorizerPayloadFormatVersion", "2.0"),
            AuthorizerResultTtlInSeconds=settings.get("authorizerResultTtlInSeconds", 300),
            EnableSimpleResponses=settings.get("enableSimpleResponses", False),
            IdentitySource=settings["identitySource"],
        )
    operations = [
        (path, method, operation)
        for path, methods in body.get("paths", {}).items()
        for method, operation in methods.items()
    ]
    # The routes of a function share an integration: one flat stack holds 500 resources.
    integrations: dict[str, str] = {}
    for number, (path, method, operation) in enumerate(operations):
        integration = operation["x-amazon-apigateway-integration"]
        target = _resource(
            "Integration",
            **api_ref,
            IntegrationType="AWS_PROXY",
            IntegrationUri=integration["uri"],
            PayloadFormatVersion=integration.get("payloadFormatVersion", "2.0"),
        )
        shared = integrations.setdefault(json.dumps(target, sort_keys=True), f"{api}Integration{number}")
        expanded[shared] = target
        verb = "ANY" if method == ANY_METHOD else method.upper()
        security = [name for requirement in operation.get("security", []) for name in requirement if name != "NONE"]
        authorization = (
            {"AuthorizationType": "CUSTOM", "AuthorizerId": {"Ref": f"{api}Authorizer{security[0]}"}}
            if security
            else {}
        )
        expanded[f"{api}Route{number}"] = _resource(
            "Route",
            **api_ref,
            RouteKey="$default" if path in {"$default", "/$default"} else f"{verb} {path}",
            Target={"Fn::Join": ["/", ["integrations", {"Ref": shared}]]},
            **authorization,
        )
    return expanded


def _resource(kind: str, **properties: Any) -> Json:
    return {"Type": f"AWS::ApiGatewayV2::{kind}", "Properties": properties}


def _rewrite_endpoints(value: Any, aws_url: str) -> Any:
    """Replace the host name of each API by its path in the emulator."""
    match value:
        case {"Fn::GetAtt": [str(api), "ApiEndpoint"]}:
            return {"Fn::Sub": f"{aws_url}/_aws/execute-api/${{{api}}}"}
        case dict():
            return {key: _rewrite_endpoints(inner, aws_url) for key, inner in value.items()}
        case list():
            return [_rewrite_endpoints(inner, aws_url) for inner in value]
        case str():
            return EXECUTE_API.sub(lambda found: f"{aws_url}/_aws/execute-api/${{{found[1]}}}", value)
    return value


def references(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every logical id or parameter that a value refers to, with the path of the reference."""
    match value:
        case {"Ref": str(name)} if len(value) == 1:
            yield name, path
        case {"Fn::GetAtt": [str(name), *_]} if len(value) == 1:
            yield name, path
        case {"Fn::GetAtt": str(dotted)} if len(value) == 1:
            yield dotted.partition(".")[0], path
        case {"Fn::Sub": text} if len(value) == 1:
            own: Json = {}
            if isinstance(text, list):
                text, own = text
                yield from references(own, path)
            yield from ((n.partition(".")[0], path) for n in SUB.findall(text) if n not in own)
        case dict():
            for key, inner in value.items():
                yield from references(inner, f"{path}.{key}" if path else key)
        case list():
            for number, inner in enumerate(value):
                yield from references(inner, f"{path}.{number}")


def _check(template: Json) -> None:
    known = set(template["Resources"]) | set(template.get("Parameters", {}))
    scope = {
        "Resources": template["Resources"],
        "Outputs": template["Outputs"],
        "Conditions": template.get("Conditions", {}),
    }
    dangling = [(n, where) for n, where in references(scope) if n not in known and not n.startswith("AWS::")]
    if dangling:
        listed = ", ".join(f"{name} (at {where})" for name, where in dangling)
        raise TemplateRefused(f"unknown references: {listed}")
    unknown = sorted({f"{key} (at {where})" for key, where in _intrinsics(scope, "") if key[4:] not in INTRINSICS})
    if unknown:
        raise TemplateRefused(f"unknown intrinsic functions: {', '.join(unknown)}")


def _intrinsics(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if str(key).startswith("Fn::"):
                yield key, path
            yield from _intrinsics(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _intrinsics(inner, path)
