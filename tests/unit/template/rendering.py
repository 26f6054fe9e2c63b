"""Values of the expanded template as AWS would see them: physical names of real length instead of references."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.unit.template.facts import Json, Template

REGION, ACCOUNT, PARTITION = "ap-southeast-1", "123456789012", "aws"  # the longest name of a region
SUFFIX, NESTED_SUFFIX = "X" * 12, "X" * 13  # what CloudFormation adds to a name that it makes
KEY_ID = "01234567-89ab-cdef-0123-456789abcdef"
COORDINATE = "c" * 43  # of a point on P-256, in base64
JWK = {"kty": "EC", "crv": "P-256", "x": COORDINATE, "y": COORDINATE, "kid": KEY_ID, "alg": "ES256", "use": "sig"}
REFERENCE = re.compile(r"\$\{([^!}][^}]*)\}")
NO_VALUE = {"Ref": "AWS::NoValue"}


class Rendering:
    """Renders with the longest stack name and environment, and of two branches of an `Fn::If` the longer one."""

    def __init__(self, template: Template, *, stack: str, parameters: dict[str, str]) -> None:
        self._template, self._stack = template, stack
        defaults = {name: str(one.get("Default", "")) for name, one in template.body["Parameters"].items()}
        self._parameters = defaults | parameters

    def text(self, value: Any) -> str:
        rendered = self.value(value)
        return rendered if isinstance(rendered, str) else json.dumps(rendered, separators=(",", ":"))

    def value(self, value: Any) -> Any:
        match value:
            case {"Ref": str(name)} if len(value) == 1:
                return self._ref(name)
            case {"Fn::GetAtt": [str(name), str(attribute)]}:
                return self._attribute(name, attribute)
            case {"Fn::GetAtt": str(dotted)}:
                return self._attribute(*dotted.split(".", 1))
            case {"Fn::Sub": str(text)}:
                return self._sub(text, {})
            case {"Fn::Sub": [str(text), dict(own)]}:
                return self._sub(text, own)
            case {"Fn::Join": [str(separator), list(parts)]}:
                return separator.join(self.text(part) for part in parts)
            case {"Fn::Select": [index, parts]}:
                return self.value(parts)[int(index)]
            case {"Fn::Split": [str(separator), inner]}:
                return self.text(inner).split(separator)
            case {"Fn::If": [_, first, second]}:
                branches = [self.value(one) for one in (first, second) if one != NO_VALUE]
                return max(branches, key=lambda one: len(json.dumps(one)), default="")
            case dict():
                return {key: self.value(inner) for key, inner in value.items()}
            case list():
                return [self.value(inner) for inner in value if inner != NO_VALUE]
        return value

    def policy(self, document: Any) -> int:
        """The length of a policy as IAM counts it, without white space."""
        return len(re.sub(r"\s", "", self.text(document)))

    def _sub(self, text: str, own: Json) -> str:
        def insert(found: re.Match[str]) -> str:
            name, dot, attribute = found[1].partition(".")
            if found[1] in own:
                return self.text(own[found[1]])
            return self.text({"Fn::GetAtt": [name, attribute]} if dot else {"Ref": name})

        return REFERENCE.sub(insert, text)

    def _ref(self, name: str) -> str:
        pseudo = {
            "AWS::StackName": self._stack, "AWS::Region": REGION, "AWS::AccountId": ACCOUNT,
            "AWS::Partition": PARTITION, "AWS::URLSuffix": "amazonaws.com", "AWS::NoValue": "",
        }  # fmt: skip
        if name in pseudo or name in self._parameters:
            return pseudo[name] if name in pseudo else self._parameters[name]
        kind, made = self._kind(name), self.made(name)
        match kind:
            case "AWS::SQS::Queue":
                return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{made}"
            case "AWS::S3::Bucket":
                return made.lower()
            case "AWS::KMS::Key":
                return KEY_ID
            case "AWS::ApiGatewayV2::Api":
                return "abcdefghij"
            case "AWS::SecretsManager::Secret":
                return f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{name}-{SUFFIX}-XXXXXX"
            case (
                "AWS::SNS::Topic"
                | "AWS::StepFunctions::StateMachine"
                | "AWS::IAM::ManagedPolicy"
                | "AWS::Lambda::Version"
            ):
                return self._arn(name)
            case "AWS::RDS::DBCluster" | "AWS::ElastiCache::ReplicationGroup":
                key = "DBClusterIdentifier" if "RDS" in kind else "ReplicationGroupId"
                return self.text(self._template.resources[name]["Properties"].get(key, made))
        return made

    def _attribute(self, name: str, attribute: str) -> str:
        match self._kind(name), attribute:
            case "AWS::SQS::Queue", "QueueName":
                return self.made(name)
            case "AWS::SSM::Parameter", "Value":
                return self.text(self._template.resources[name]["Properties"]["Value"])
            case "Custom::TokenKeys", "Jwks":
                return json.dumps({"keys": [JWK, JWK]}, separators=(",", ":"))  # two, while a key is replaced
            case "Custom::OriginHashes", "Hashes":
                return ",".join(["0" * 64] * 2)  # two, while a value is replaced
            case "AWS::RDS::DBProxy", "Endpoint":
                return f"{self._stack}.proxy-{SUFFIX.lower()}.{REGION}.rds.amazonaws.com"
            case "AWS::RDS::DBProxy", "DBProxyArn":
                return f"arn:aws:rds:{REGION}:{ACCOUNT}:db-proxy:prx-0123456789abcdef0"
            case "AWS::ElastiCache::ReplicationGroup", "PrimaryEndPoint.Port":
                return "6379"
            case _, "Arn" | "DBProxyArn":
                return self._arn(name)
        if attribute.endswith(("Endpoint", "Endpoint.Address", "EndPoint.Address")):
            return f"master.{self._ref(name)}.xxxxxx.apse1.cache.amazonaws.com"
        return self._arn(name) if attribute.endswith("Arn") else self.made(name)

    def _arn(self, name: str) -> str:
        if self._kind(name) == "AWS::S3::Bucket":
            return f"arn:aws:s3:::{self._ref(name)}"
        service = {"Lambda": "lambda:function", "SQS": "sqs", "IAM": "iam", "StepFunctions": "states:stateMachine"}
        kind = self._kind(name).split("::")[1]
        return f"arn:aws:{service.get(kind, kind.lower())}:{REGION}:{ACCOUNT}:{self.made(name)}"

    def _kind(self, name: str) -> str:
        return str(self._template.resources[name]["Type"])

    def made(self, name: str) -> str:
        """The name that CloudFormation makes for a resource without one. A nested stack's own name has a suffix too."""
        own = self._template.resources[name].get("Metadata", {}).get("Name")
        if own is None:
            return f"{self._stack}-{name}-{SUFFIX}"
        return f"{self._stack}-{name.removesuffix(own)}-{NESTED_SUFFIX}-{own}-{SUFFIX}"
