"""Copies for the loss of a region, and the environment that starts from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local import template as local_template
from tests.unit.template.facts import ROOT, Template

Json = dict[str, Any]
COPIES = "${Name}-copies"


@pytest.fixture(scope="module")
def replica() -> Json:
    """The stack that the second region has before."""
    return {name: one.get("Properties", {}) for name, one in _parsed("replica").items()}


@pytest.fixture(scope="module")
def data() -> Json:
    return _parsed("data")


def _parsed(stack: str) -> Json:
    resources: Json = local_template.read(ROOT / f"stacks/{stack}.yaml")["Resources"]
    return resources


def test_backups_go_to_the_vault_of_the_replica(replica: Json) -> None:
    (rule,) = _parsed("backup")["Plan"]["Properties"]["BackupPlan"]["BackupPlanRule"]
    (copied,) = rule["CopyActions"]
    assert replica["Vault"]["BackupVaultName"] == {"Fn::Sub": COPIES}
    assert copied["DestinationBackupVaultArn"]["Fn::Sub"].endswith(
        f":backup:${{SecondRegion}}:${{AWS::AccountId}}:backup-vault:{COPIES}"
    )
    assert copied["Lifecycle"]["DeleteAfterDays"] >= 35


def test_artefacts_go_to_the_bucket_of_the_replica(replica: Json, data: Json) -> None:
    condition, replication, otherwise = data["ArtefactBucket"]["Properties"]["ReplicationConfiguration"]["Fn::If"]
    (rule,) = replication["Rules"]
    bucket = replica["Bucket"]
    assert (condition, otherwise) == ("Copied", {"Ref": "AWS::NoValue"})
    assert bucket["BucketName"]["Fn::Sub"] == COPIES + "-${AWS::AccountId}"
    assert rule["Destination"]["Bucket"]["Fn::Sub"].endswith(bucket["BucketName"]["Fn::Sub"])
    alias = replica["KeyAlias"]["AliasName"]["Fn::Sub"]
    assert rule["Destination"]["EncryptionConfiguration"]["ReplicaKmsKeyID"]["Fn::Sub"].endswith(f":{alias}")
    # Deletions of the application are obeyed there too; S3 replicates neither objects without versions nor lifecycles.
    assert rule["DeleteMarkerReplication"] == {"Status": "Enabled"}
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    kept = {one["Id"]: one for one in data["ArtefactBucket"]["Properties"]["LifecycleConfiguration"]["Rules"]}
    for one in bucket["LifecycleConfiguration"]["Rules"]:
        assert kept[one["Id"]] == one


def test_replication_may_do_what_it_needs(data: Json, replica: Json) -> None:
    text = json.dumps(data["ReplicationPolicy"]["Properties"]["PolicyDocument"])
    assert data["ReplicationPolicy"]["Properties"]["Roles"] == [{"Ref": "ReplicationRole"}]
    for action in ("s3:ReplicateObject", "s3:ReplicateDelete", "kms:Decrypt", "kms:GenerateDataKey"):
        assert action in text
    assert replica["KeyAlias"]["AliasName"]["Fn::Sub"] in text


def test_only_partner_secrets_have_replicas(template: Template) -> None:
    for name, secret in template.of_type("AWS::SecretsManager::Secret").items():
        is_copied = name in {"TextProvidersSecret", "WechatLoginSecret", "WechatPaySecret"}
        assert ("ReplicaRegions" in secret) == is_copied, f"{name}: a secret that the stack makes is made anew"


@pytest.mark.parametrize("name", ["Database", "DatabaseInstance"])
def test_a_database_from_a_snapshot_takes_its_owner(data: Json, name: str) -> None:
    database = data[name]["Properties"]
    nothing = {"Ref": "AWS::NoValue"}
    key = "SnapshotIdentifier" if name == "Database" else "DBSnapshotIdentifier"
    assert database[key] == {"Fn::If": ["FromSnapshot", {"Ref": "DatabaseSnapshot"}, nothing]}
    assert database["MasterUsername"] == {"Fn::If": ["FromSnapshot", nothing, "artiway_owner"]}
    assert database["ManageMasterUserPassword"] is True


def test_no_copies_are_made_without_a_region(root: Template) -> None:
    assert root.resources["Backup"]["Condition"] == "Copied"
    assert root.body["Parameters"]["SecondRegion"]["Default"] == ""
