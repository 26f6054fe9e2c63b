"""Questions that the tests ask of an expanded template."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
Json = dict[str, Any]


class Template:
    def __init__(self, body: Json) -> None:
        self.body = body
        self.resources: dict[str, Json] = body["Resources"]

    def of_type(self, kind: str) -> dict[str, Json]:
        """The properties of all resources of a type, by logical id."""
        return {n: r.get("Properties", {}) for n, r in self.resources.items() if r["Type"] == kind}

    def value(self, value: Any) -> Any:
        """A plain value, or the default of the parameter that it refers to."""
        if isinstance(value, dict) and "Ref" in value:
            default = self.body["Parameters"][value["Ref"]]["Default"]
            return int(default) if str(default).isdigit() else default
        return value

    @property
    def functions(self) -> dict[str, Json]:
        return self.of_type("AWS::Lambda::Function")

    def function_of(self, reference: Any) -> str:
        """The function that a reference means, itself or by its alias."""
        name = target(reference)
        if self.resources[name]["Type"] == "AWS::Lambda::Alias":
            return target(self.resources[name]["Properties"]["FunctionName"])
        return name

    def folder_of(self, function: str) -> str:
        """`functions/health` for HealthFunction."""
        return str(self.functions[function]["Code"]["S3Key"])

    def variables_of(self, function: str) -> Json:
        variables: Json = self.functions[function]["Environment"]["Variables"]
        return variables

    def role_of(self, function: str) -> Json:
        role: Json = self.resources[target(self.functions[function]["Role"])]["Properties"]
        return role

    def statements(self) -> Iterator[tuple[str, Json]]:
        """Every statement of every identity policy, with the logical id that it belongs to."""
        for name, role in self.of_type("AWS::IAM::Role").items():
            for policy in role.get("Policies", []):
                yield from ((name, one) for one in many(policy["PolicyDocument"]["Statement"]))
        for name, policy in self.of_type("AWS::IAM::ManagedPolicy").items():
            yield from ((name, one) for one in many(policy["PolicyDocument"]["Statement"]))

    def granted(self, function: str) -> Iterator[Json]:
        """Every statement that a function's role carries, its shared policies included."""
        role = self.role_of(function)
        for policy in role.get("Policies", []):
            yield from many(policy["PolicyDocument"]["Statement"])
        for arn in role.get("ManagedPolicyArns", []):
            if isinstance(arn, dict) and "Ref" in arn:
                yield from many(self.resources[arn["Ref"]]["Properties"]["PolicyDocument"]["Statement"])


def metrics_of(alarm: Json) -> Iterator[tuple[str, str, Json]]:
    """Namespace, name and dimensions of each metric that an alarm looks at, one or several."""
    several = [query["MetricStat"]["Metric"] for query in alarm.get("Metrics", []) if "MetricStat" in query]
    for metric in several or [alarm]:
        yield (
            metric["Namespace"],
            metric["MetricName"],
            {one["Name"]: one["Value"] for one in metric.get("Dimensions", [])},
        )


def many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def target(reference: Any) -> str:
    """The logical id that a Ref or a GetAtt points at, itself or as one of a list."""
    match reference:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]}:
            return name
        case {"Fn::GetAtt": str(dotted)}:
            return dotted.partition(".")[0]
        case {"Fn::Select": [int(place), list(items)]}:
            return target(items[place])
    raise AssertionError(f"not a reference: {reference}")
