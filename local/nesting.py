"""Nested applications as one flat template: the resource `Cache` of the application `Data` becomes `DataCache`.

The emulator deploys one stack, and a test asks about one template. On AWS each application is a stack of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]
APPLICATION = "AWS::Serverless::Application"
REFERENCE = re.compile(r"\$\{([^!}][^}]*)\}")
# What a name stands for: another value, or None if it stays as it is.
Lookup = Callable[[str], Any]


class NestingRefused(ValueError):
    """A nested application that CloudFormation would refuse, or whose flat form would mean something else."""


def flatten(template: Json, nested: Mapping[str, Json]) -> Json:
    """`nested` has the template of each application by its logical id."""
    outputs: Json = {}
    flat: Json = {**template, "Resources": {}, "Conditions": dict(template.get("Conditions", {}))}
    members: dict[str, list[str]] = {}
    for name, resource in template["Resources"].items():
        if resource["Type"] != APPLICATION:
            flat["Resources"][name] = resource
            continue
        part = _Part(name, resource, nested[name])
        flat["Resources"] |= part.resources
        flat["Conditions"] |= part.conditions
        outputs |= part.outputs
        members[name] = list(part.resources)

    def output_of(reference: str) -> Any:
        application, _, output = reference.partition(".Outputs.")
        if application not in members:
            return None
        if reference not in outputs:
            raise NestingRefused(f"{application} has no output {output or reference}")
        return replaced(outputs[reference], output_of)

    whole: Json = {key: replaced(value, output_of) for key, value in flat.items()}
    for resource in whole["Resources"].values():
        if "DependsOn" in resource:
            wanted = _many(resource["DependsOn"])
            resource["DependsOn"] = [one for name in wanted for one in members.get(name, [name])]
    return whole


class _Part:
    """One application: its parameters replaced by the values that it gets, its own names by their flat names."""

    def __init__(self, name: str, application: Json, template: Json) -> None:
        self._name, self._template = name, template
        given: Json = application["Properties"].get("Parameters", {})
        declared: Json = template.get("Parameters", {})
        if unknown := sorted(given.keys() - declared.keys()):
            raise NestingRefused(f"{name} gets unknown parameters: {', '.join(unknown)}")
        if missing := sorted(key for key, one in declared.items() if key not in given and "Default" not in one):
            raise NestingRefused(f"{name} lacks parameters: {', '.join(missing)}")
        self._values = {
            key: _as_list(given.get(key, one.get("Default")))
            if "List" in one["Type"]
            else given.get(key, one.get("Default"))
            for key, one in declared.items()
        }
        self.conditions: Json = {name + key: self._own(value) for key, value in template.get("Conditions", {}).items()}
        self.resources = {name + key: self._resource(key, value) for key, value in template["Resources"].items()}
        self.outputs = {
            f"{name}.Outputs.{key}": self._own(one["Value"]) for key, one in template.get("Outputs", {}).items()
        }
        if condition := application.get("Condition"):
            for resource in self.resources.values():
                resource["Condition"] = self._both(condition, resource.get("Condition"))

    def _resource(self, key: str, value: Json) -> Json:
        resource: Json = self._own(value)
        if "DependsOn" in resource:
            resource["DependsOn"] = [self._name + one for one in _many(resource["DependsOn"])]
        resource["Metadata"] = {**resource.get("Metadata", {}), "Name": key}
        return resource

    def _both(self, outer: str, inner: str | None) -> str:
        if inner is None:
            return outer
        self.conditions[f"{inner}And{outer}"] = {"Fn::And": [{"Condition": outer}, {"Condition": inner}]}
        return f"{inner}And{outer}"

    def _own(self, value: Any) -> Any:
        return replaced(_with_conditions(value, self._name), self._lookup)

    def _lookup(self, reference: str) -> Any:
        own, dot, attribute = reference.partition(".")
        if own == "AWS::StackName":
            raise NestingRefused(f"{self._name} uses its own stack's name; pass the name of the root stack to it")
        if own in self._values and not dot:
            return self._values[own]
        if own not in self._template["Resources"]:
            return None
        return {"Fn::GetAtt": [self._name + own, attribute]} if dot else {"Ref": self._name + own}


def replaced(value: Any, lookup: Lookup) -> Any:
    """The value with each `Ref`, `Fn::GetAtt` and `${…}` replaced for which `lookup` has something."""
    match value:
        case {"Ref": str(name)} if len(value) == 1:
            found = lookup(name)
            return value if found is None else found
        case {"Fn::GetAtt": [str(name), str(attribute)]} if len(value) == 1:
            found = lookup(f"{name}.{attribute}")
            return value if found is None else found
        case {"Fn::Sub": text} if len(value) == 1:
            return _replaced_text(text, lookup)
        case dict():
            return {key: replaced(inner, lookup) for key, inner in value.items()}
        case list():
            return [replaced(inner, lookup) for inner in value]
    return value


def _replaced_text(sub: Any, lookup: Lookup) -> Any:
    text, own = (sub, {}) if isinstance(sub, str) else sub
    variables: Json = {key: replaced(inner, lookup) for key, inner in own.items()}

    def insert(found: re.Match[str]) -> str:
        if found[1] in own or (value := lookup(found[1])) is None:
            return found[0]
        match value:
            case str() | int() | float():
                return str(value)
            case {"Ref": str(name)}:
                return f"${{{name}}}"
            case {"Fn::GetAtt": [str(name), str(attribute)]}:
                return f"${{{name}.{attribute}}}"
            case {"Fn::Sub": str(inner)}:
                return inner
        variable = re.sub(r"\W", "", found[1])
        variables[variable] = value
        return f"${{{variable}}}"

    text = REFERENCE.sub(insert, text)
    return {"Fn::Sub": [text, variables] if variables else text}


def _with_conditions(value: Any, prefix: str) -> Any:
    """Give the conditions that a value names their flat names."""
    match value:
        case {"Fn::If": [str(name), *rest]}:
            return {"Fn::If": [prefix + name, *(_with_conditions(one, prefix) for one in rest)]}
        case dict():
            return {
                key: prefix + inner
                if key == "Condition" and isinstance(inner, str)
                else _with_conditions(inner, prefix)
                for key, inner in value.items()
            }
        case list():
            return [_with_conditions(inner, prefix) for inner in value]
    return value


def _as_list(value: Any) -> Any:
    """CloudFormation hands a list over as one text."""
    match value:
        case {"Fn::Join": [",", list(items)]}:
            return items
        case str():
            return value.split(",")
    return {"Fn::Split": [",", value]}


def _many(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
