"""Nested applications in one flat template."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from local.nesting import NestingRefused, flatten
from local.template import TemplateRefused, load

PART: dict[str, Any] = {
    "Parameters": {
        "Name": {"Type": "String"},
        "Size": {"Type": "Number", "Default": 3},
        "Queues": {"Type": "CommaDelimitedList", "Default": "a,b"},
    },
    "Conditions": {"Large": {"Fn::Equals": [{"Ref": "Size"}, "9"]}},
    "Resources": {
        "Store": {
            "Type": "AWS::S3::Bucket",
            "DependsOn": "Key",
            "Properties": {"Text": {"Fn::Sub": "${Name}-${Size}-${Key.Arn}-${AWS::Region}"}, "List": {"Ref": "Queues"}},
        },
        "Key": {
            "Type": "AWS::KMS::Key",
            "Condition": "Large",
            "Properties": {"Size": {"Fn::If": ["Large", {"Ref": "Size"}, 0]}},
        },
    },
    "Outputs": {
        "Arn": {"Value": {"Fn::GetAtt": ["Store", "Arn"]}},
        "Address": {"Value": {"Fn::Sub": "s3://${Store}/${Name}"}},
        "Chosen": {"Value": {"Fn::If": ["Large", "big", {"Ref": "Store"}]}},
    },
}


def application(**parameters: Any) -> dict[str, Any]:
    return {"Type": "AWS::Serverless::Application", "Properties": {"Location": "part.yaml", "Parameters": parameters}}


def flat(resources: dict[str, Any], part: dict[str, Any] = PART, **rest: Any) -> dict[str, Any]:
    names = [name for name, one in resources.items() if one["Type"] == "AWS::Serverless::Application"]
    return flatten({"Resources": resources, **rest}, dict.fromkeys(names, part))


def queue(name: Any, **rest: Any) -> dict[str, Any]:
    return {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": name}, **rest}


def test_own_names_get_the_application_as_prefix() -> None:
    resources = flat({"Data": application(Name={"Ref": "AWS::StackName"})})["Resources"]
    assert set(resources) == {"DataStore", "DataKey"}
    store = resources["DataStore"]
    assert store["DependsOn"] == ["DataKey"]
    assert store["Properties"]["Text"] == {"Fn::Sub": "${AWS::StackName}-3-${DataKey.Arn}-${AWS::Region}"}
    assert store["Properties"]["List"] == ["a", "b"]
    assert store["Metadata"]["Name"] == "Store"


def test_one_template_is_used_twice_without_mixing() -> None:
    resources = flat({"One": application(Name="one", Size=9), "Two": application(Name="two")})["Resources"]
    assert resources["OneStore"]["Properties"]["Text"] == {"Fn::Sub": "one-9-${OneKey.Arn}-${AWS::Region}"}
    assert resources["TwoStore"]["Properties"]["Text"] == {"Fn::Sub": "two-3-${TwoKey.Arn}-${AWS::Region}"}


def test_outputs_are_replaced_wherever_they_are_used() -> None:
    template = flat(
        {
            "Data": application(Name="n"),
            "More": application(Name={"Fn::GetAtt": ["Data", "Outputs.Arn"]}),
            "Queue": queue({"Fn::Sub": ["${Data.Outputs.Address}/${own}/${More.Outputs.Chosen}", {"own": 1}]}),
        },
        Globals={"Function": {"Role": {"Fn::GetAtt": ["Data", "Outputs.Arn"]}}},
        Outputs={"Out": {"Value": {"Fn::GetAtt": ["More", "Outputs.Address"]}}},
    )
    assert template["Globals"]["Function"]["Role"] == {"Fn::GetAtt": ["DataStore", "Arn"]}
    assert template["Outputs"]["Out"]["Value"] == {"Fn::Sub": "s3://${MoreStore}/${DataStore.Arn}"}
    name = template["Resources"]["Queue"]["Properties"]["QueueName"]
    chosen = {"Fn::If": ["MoreLarge", "big", {"Ref": "MoreStore"}]}
    assert name == {
        "Fn::Sub": ["s3://${DataStore}/n/${own}/${MoreOutputsChosen}", {"own": 1, "MoreOutputsChosen": chosen}]
    }


def test_conditions_of_both_templates_hold_together() -> None:
    data = {**application(Name={"Fn::If": ["Wanted", "a", "b"]}), "Condition": "Wanted"}
    template = flat({"Data": data}, Conditions={"Wanted": {"Fn::Equals": ["a", "a"]}})
    resources = template["Resources"]
    assert resources["DataStore"]["Condition"] == "Wanted"
    both = template["Conditions"][resources["DataKey"]["Condition"]]
    assert both == {"Fn::And": [{"Condition": "Wanted"}, {"Condition": "DataLarge"}]}
    assert resources["DataKey"]["Properties"]["Size"]["Fn::If"][0] == "DataLarge"
    assert resources["DataStore"]["Properties"]["Text"]["Fn::Sub"][1]["Name"] == {"Fn::If": ["Wanted", "a", "b"]}


def test_a_dependency_on_an_application_covers_its_resources() -> None:
    resources = flat({"Data": application(Name="n"), "Queue": queue("q", DependsOn=["Data"])})["Resources"]
    assert resources["Queue"]["DependsOn"] == ["DataStore", "DataKey"]


def test_a_list_from_the_root_stays_a_list() -> None:
    arns = [{"Fn::GetAtt": ["Queue", "Arn"]}, "b"]
    joined = application(Name="n", Queues={"Fn::Join": [",", arns]})
    assert flat({"Data": joined})["Resources"]["DataStore"]["Properties"]["List"] == arns
    passed = application(Name="n", Queues={"Ref": "All"})
    assert flat({"Data": passed})["Resources"]["DataStore"]["Properties"]["List"] == {
        "Fn::Split": [",", {"Ref": "All"}]
    }


def test_flattening_does_not_change_its_input() -> None:
    resources, part = {"Data": application(Name="n"), "Queue": queue("q", DependsOn="Data")}, copy.deepcopy(PART)
    before = copy.deepcopy(resources)
    flat(resources, part)
    assert (resources, part) == (before, PART)


@pytest.mark.parametrize(
    ("resources", "reason"),
    [
        ({"Data": application()}, "Data lacks parameters: Name"),
        ({"Data": application(Name="n", Colour="red")}, "unknown parameters: Colour"),
        ({"Data": application(Name="n"), "Queue": queue({"Fn::GetAtt": ["Data", "Outputs.No"]})}, "no output No"),
        ({"Data": application(Name="n"), "Queue": queue({"Ref": "Data"})}, "no output Data"),
    ],
)
def test_what_cloudformation_refuses_is_refused(resources: dict[str, Any], reason: str) -> None:
    with pytest.raises(NestingRefused, match=reason):
        flat(resources)


def test_the_name_of_a_nested_stack_is_refused() -> None:
    part = {"Resources": {"Queue": queue({"Ref": "AWS::StackName"})}}
    with pytest.raises(NestingRefused, match="name of the root stack"):
        flat({"Data": application()}, part)


def test_a_missing_nested_template_is_refused(tmp_path: Path) -> None:
    text = "Resources: {Data: {Type: 'AWS::Serverless::Application', Properties: {Location: gone.yaml}}}"
    (tmp_path / "template.yaml").write_text(text)
    with pytest.raises(TemplateRefused, match=r"gone\.yaml"):
        load(tmp_path / "template.yaml")
