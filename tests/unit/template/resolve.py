"""The values that CloudFormation computes from a template and its parameters."""

from __future__ import annotations

import re
from typing import Any

Json = dict[str, Any]
NO_VALUE = object()
REGION = "us-east-1"
REFERENCE = re.compile(r"\$\{([^!}]+)\}")


class Resolver:
    """A reference to a resource becomes its name, `Name` or `Name.Attribute`; one to AWS::X becomes X."""

    def __init__(self, template: Json, **parameters: str) -> None:
        self._template = template
        declared = template["Parameters"]
        assert parameters.keys() <= declared.keys(), parameters.keys() - declared.keys()
        given = {name: parameters.get(name, one.get("Default", name)) for name, one in declared.items()}
        self._parameters = {
            name: str(value).split(",") if "List" in declared[name]["Type"] else str(value)
            for name, value in given.items()
        }

    def is_true(self, condition: str) -> bool:
        return bool(self(self._template["Conditions"][condition]))

    def refused(self) -> list[str]:
        """The rules that refuse the parameters."""
        return [
            name
            for name, rule in self._template["Rules"].items()
            if self(rule["RuleCondition"]) and not all(self(one["Assert"]) for one in rule["Assertions"])
        ]

    def __call__(self, value: Any) -> Any:
        match value:
            case {"Ref": "AWS::NoValue"}:
                return NO_VALUE
            case {"Ref": str(name)}:
                return self._reference(name)
            case {"Fn::GetAtt": [str(name), str(attribute)]}:
                return f"{name}.{attribute}"
            case {"Condition": str(name)} if len(value) == 1:
                return self.is_true(name)
            case {"Fn::If": [str(condition), then, otherwise]}:
                return self(then if self.is_true(condition) else otherwise)
            case {"Fn::Equals": [left, right]}:
                return self(left) == self(right)
            case {"Fn::Not": [one]}:
                return not self(one)
            case {"Fn::And": many}:
                return all(self(one) for one in many)
            case {"Fn::Or": many}:
                return any(self(one) for one in many)
            case {"Fn::Contains": [many, one]}:
                return self(one) in self(many)
            case {"Fn::FindInMap": [name, first, second]}:
                return self._template["Mappings"][self(name)][self(first)][self(second)]
            case {"Fn::Join": [separator, many]}:
                return separator.join(self(many))
            case {"Fn::Split": [separator, text]}:
                return self(text).split(separator)
            case {"Fn::Sub": [str(text), dict(own)]}:
                return self._text(text, own)
            case {"Fn::Sub": str(text)}:
                return self._text(text, {})
            case dict():
                return {key: found for key, one in value.items() if (found := self(one)) is not NO_VALUE}
            case list():
                return [found for one in value if (found := self(one)) is not NO_VALUE]
        return value

    def _reference(self, name: str) -> Any:
        return self._parameters.get(name, REGION if name == "AWS::Region" else name.removeprefix("AWS::"))

    def _text(self, text: str, own: Json) -> str:
        return REFERENCE.sub(
            lambda found: str(self(own[found[1]]) if found[1] in own else self._reference(found[1])), text
        )
