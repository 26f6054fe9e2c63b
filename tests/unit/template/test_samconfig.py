"""The environments of samconfig.toml, and the parameters that they set."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tests.unit.template.facts import ROOT, Template

ENVIRONMENTS = {"default": "dev", "staging": "staging", "prod": "prod", "dr": "dr"}
# Numbers of migrations and ids of keys.
FREE_TEXT = {"SchemaVersion"}
# What makes dev cheap. The next in line each cost more than a tenth of its bill.
CHEAP = {
    "DatabaseKind": "instance", "NatKind": "instance", "HasWebAcl": "false", "HasAlarms": "false",
    "WatchdogWorkSeconds": "0", "RelayWorkSeconds": "0", "TriggerWorkSeconds": "0",
}  # fmt: skip


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return tomllib.loads((ROOT / "samconfig.toml").read_text())


def overrides(config: dict[str, Any], environment: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in config[environment]["deploy"]["parameters"]["parameter_overrides"])


def test_the_sections_are_the_environments(config: dict[str, Any]) -> None:
    assert config.keys() - {"version"} == ENVIRONMENTS.keys()


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_environment_can_be_deployed_by_its_section(config: dict[str, Any], environment: str) -> None:
    section = config[environment]
    assert section["global"]["parameters"]["stack_name"] == f"artiway-{ENVIRONMENTS[environment]}"
    assert section["global"]["parameters"]["region"]
    deploy = section["deploy"]["parameters"]
    assert {"CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"} == set(deploy["capabilities"])
    assert deploy["resolve_s3"] is True
    assert overrides(config, environment)["Environment"] == ENVIRONMENTS[environment]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_value_is_within_its_parameters_bounds(root: Template, config: dict[str, Any], environment: str) -> None:
    for name, value in overrides(config, environment).items():
        parameter = root.body["Parameters"][name]
        assert not parameter.get("NoEcho"), f"{name} is a secret"
        assert value in [str(one) for one in parameter.get("AllowedValues", [value])], name
        assert re.search(parameter.get("AllowedPattern", ""), value), name
        if parameter["Type"] == "Number":
            assert parameter.get("MinValue", 0) <= float(value) <= parameter.get("MaxValue", float("inf")), name


def test_an_empty_release_lets_versions_follow_the_code(config: dict[str, Any]) -> None:
    """A stack keeps its parameters: without this a bare `sam deploy` would keep the release of `make deploy`."""
    for environment in ENVIRONMENTS:
        assert overrides(config, environment)["Release"] == "", environment


def test_dev_has_nothing_that_is_dear(config: dict[str, Any]) -> None:
    given = overrides(config, "default")
    assert CHEAP.items() <= given.items()
    assert not given.keys() & {"IsProduction", "HasInterfaceEndpoints", "HasSnapStart", "SecondRegion"}
    assert 0 < int(given["BudgetDollars"]) <= 60


def test_production_has_standby_canary_and_copies(config: dict[str, Any]) -> None:
    given = overrides(config, "prod")
    assert (given["IsProduction"], given["DeploymentPreference"]) == ("true", "Canary10Percent5Minutes")
    assert given["SecondRegion"] == config["dr"]["global"]["parameters"]["region"]
    assert config["prod"]["deploy"]["parameters"]["confirm_changeset"] is True


def test_the_second_region_has_no_own_firewall(config: dict[str, Any]) -> None:
    given = overrides(config, "dr")
    assert config["dr"]["global"]["parameters"]["region"] != "us-east-1"
    assert given["HasWebAcl"] == "false" or "WebAclArn" in given


def test_every_parameter_is_described_and_bounded(root: Template) -> None:
    for name, parameter in root.body["Parameters"].items():
        assert len(parameter.get("Description", "")) > 20, name
        if parameter["Type"] == "Number":
            assert "AllowedValues" in parameter or {"MinValue", "MaxValue"} <= parameter.keys(), name
        else:
            bounded = {"AllowedValues", "AllowedPattern", "NoEcho"} & parameter.keys()
            assert bounded or name in FREE_TEXT, name
