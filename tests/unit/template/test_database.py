"""The database of the template: who may sign in, over which address, and when its schema changes."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.template.facts import Template, many

ROLES = {
    "ARTIWAY_DATABASE_URL": "artiway_app",
    "ARTIWAY_SERVICE_DATABASE_URL": "artiway_service",
    "ARTIWAY_OWNER_DATABASE_URL": "artiway_owner",
}
KINDS = ("aurora", "instance")


def chosen(value: Any, kind: str) -> Any:
    """The value with the conditions on DatabaseKind decided."""
    match value:
        case {"Fn::If": [str(condition), yes, no]} if condition in ("DataAurora", "DataInstance"):
            return chosen(yes if condition.removeprefix("Data").lower() == kind else no, kind)
        case dict():
            return {key: chosen(inner, kind) for key, inner in value.items()}
        case list():
            return [chosen(inner, kind) for inner in value]
    return value


def text(value: Any) -> str:
    """The text of a Fn::Sub with its variables inserted, references as `${Name.Attribute}`."""
    match value:
        case {"Fn::Sub": [str(template), dict(variables)]}:
            for name, inner in variables.items():
                template = template.replace(f"${{{name}}}", text(inner))
            return template
        case {"Fn::Sub": str(template)}:
            return template
        case {"Fn::GetAtt": [str(name), str(attribute)]}:
            return f"${{{name}.{attribute}}}"
        case {"Fn::Select": [6, {"Fn::Split": [":", inner]}]}:
            return text(inner)
    return str(value)


def addresses(template: Template, kind: str) -> dict[str, set[str]]:
    """The different addresses of each variable, over all functions."""
    found: dict[str, set[str]] = {}
    for function in template.functions:
        for name, value in template.variables_of(function).items():
            if name in ROLES or name == "ARTIWAY_REDIS_URL":
                found.setdefault(name, set()).add(text(chosen(value, kind)))
    return found


@pytest.mark.parametrize("kind", KINDS)
class TestAddresses:
    def test_each_role_has_one_address_without_password(self, kind, template):
        found = addresses(template, kind)
        for name, role in ROLES.items():
            (address,) = found[name]
            assert address.startswith(f"postgresql://{role}@$"), name

    def test_every_server_is_verified_with_its_roots(self, kind, template):
        roots = {}
        for name, found in addresses(template, kind).items():
            query = {key: values[0] for key, values in parse_qs(urlsplit(next(iter(found))).query).items()}
            if name in ROLES:
                assert query.pop("sslmode") == "verify-full", name
            (roots[name],) = query.values()
        rds, amazon = "/opt/roots/rds-${AWS::Region}.pem", "/opt/roots/amazon.pem"
        behind = amazon if kind == "aurora" else rds
        assert roots == {
            "ARTIWAY_DATABASE_URL": behind,
            "ARTIWAY_SERVICE_DATABASE_URL": behind,
            "ARTIWAY_OWNER_DATABASE_URL": rds,
            "ARTIWAY_REDIS_URL": amazon,
        }

    def test_migrations_connect_to_the_database_itself(self, kind, template):
        host = {"aurora": "${DataDatabase.Endpoint.Address}", "instance": "${DataDatabaseInstance.Endpoint.Address}"}
        (address,) = addresses(template, kind)["ARTIWAY_OWNER_DATABASE_URL"]
        assert f"@{host[kind]}:5432/" in address

    def test_permission_names_the_server_of_the_address(self, kind, template):
        """IAM lets a role sign in to one server by its id: the proxy, the cluster or the instance."""
        server = {
            "aurora": ("DataDatabaseProxy.DBProxyArn", "DataDatabase.DBClusterResourceId"),
            "instance": ("DataDatabaseInstance.DbiResourceId",) * 2,
        }[kind]
        found = {
            text(chosen(resource, kind)).rpartition(":")[2]
            for function in template.functions
            for statement in template.granted(function)
            if "rds-db:connect" in many(statement["Action"])
            for resource in many(statement["Resource"])
        }
        assert found == {
            f"${{{server[0]}}}/artiway_app",
            f"${{{server[0]}}}/artiway_service",
            f"${{{server[1]}}}/artiway_owner",
        }


class TestAccess:
    def test_deploy_function_alone_reads_the_password(self, template):
        readers = {
            function
            for function in template.functions
            for statement in template.granted(function)
            if "secretsmanager:GetSecretValue" in many(statement["Action"])
            and "MasterUserSecret" in json.dumps(statement["Resource"])
        }
        assert readers == {"DeployFunction"}

    def test_proxy_signs_in_with_iam_without_secret(self, template):
        (proxy,) = template.of_type("AWS::RDS::DBProxy").values()
        assert (proxy["DefaultAuthScheme"], proxy["RequireTLS"], "Auth" in proxy) == ("IAM_AUTH", True, False)
        role = template.of_type("AWS::IAM::Role")["DataDatabaseProxyRole"]
        actions = chain.from_iterable(
            many(one["Action"]) for policy in role["Policies"] for one in policy["PolicyDocument"]["Statement"]
        )
        assert set(actions) == {"rds-db:connect"}

    def test_only_migrations_reach_database_past_the_proxy(self, template):
        groups = {
            function: [json.dumps(group) for group in properties["VpcConfig"]["SecurityGroupIds"]]
            for function, properties in template.functions.items()
            if "SecurityGroupIds" in properties.get("VpcConfig", {})
        }
        owners = {name for name, found in groups.items() if any("DataOwnerSecurityGroup" in one for one in found)}
        assert owners == {"DeployFunction"}
        assert len(groups["DeployFunction"]) == 2
        database = template.of_type("AWS::EC2::SecurityGroup")["DataDatabaseSecurityGroup"]
        sources = [chosen(rule["SourceSecurityGroupId"], "aurora") for rule in database["SecurityGroupIngress"]]
        assert sources == [{"Ref": "DataOwnerSecurityGroup"}, {"Ref": "DataProxySecurityGroup"}]

    @pytest.mark.parametrize("kind", ["AWS::RDS::DBCluster", "AWS::RDS::DBInstance"])
    def test_owner_is_the_master_user_with_iam(self, kind, template):
        made = [one for one in template.of_type(kind).values() if "DBClusterIdentifier" not in one or "Cluster" in kind]
        assert len(made) == 1
        for one in made:
            assert "artiway_owner" in json.dumps(one["MasterUsername"])
            assert one["EnableIAMDatabaseAuthentication"] is True
            assert one["ManageMasterUserPassword"] is True
            assert "MasterUserPassword" not in one


class TestPhases:
    @pytest.fixture
    def migrations(self, template):
        found = {n: r for n, r in template.resources.items() if r["Type"] == "Custom::Migration"}
        return {one["Properties"]["Phase"]: (name, one) for name, one in found.items()}

    def test_both_phases_run_with_new_code(self, migrations, template):
        assert set(migrations) == {"before", "after"}
        for _, one in migrations.values():
            assert one["Properties"]["Layer"] == migrations["before"][1]["Properties"]["Layer"]
            assert int(one["Properties"]["ServiceTimeout"]) > template.functions["DeployFunction"]["Timeout"] == 900

    def test_new_code_waits_for_migrations_before_it(self, migrations, template):
        name, _ = migrations["before"]
        for function in template.functions:
            if function != "DeployFunction" and ROLES.keys() & template.variables_of(function).keys():
                assert name in many(template.resources[function].get("DependsOn", [])), function

    def test_migrations_after_code_wait_for_all(self, migrations, template):
        """For a function with an alias, until the alias points at the new version."""
        _, after = migrations["after"]
        found = template.of_type("AWS::Lambda::Alias").items()
        aliases = {one["FunctionName"]["Ref"]: name for name, one in found if one["Name"] == "live"}
        wanted = {aliases.get(name, name) for name in template.functions if name != "DeployFunction"}
        assert {*wanted, "Recovery"} == set(after["DependsOn"])
