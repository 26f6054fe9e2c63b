"""The keys that a deployment makes for addresses of pictures, through the steps of a rotation."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from artiway.platform import aws, picture_keys
from artiway.platform.picture_keys import StoredKey

BOTH = {"first": "1", "second": "1"}


@pytest.fixture
def manager():
    return aws.client("secretsmanager")


@pytest.fixture
def arn(manager):
    return manager.create_secret(Name="pictures", SecretString="{}")["ARN"]


@pytest.fixture
def stored(manager, arn):
    return lambda: json.loads(manager.get_secret_value(SecretId=arn)["SecretString"])


def test_first_deployment_makes_both_keys(arn, stored):
    made = picture_keys.ensure(arn, BOTH)
    assert list(stored()) == ["first-1", "second-1"]
    for slot, text in made.items():
        key = load_pem_public_key(text.encode())
        assert isinstance(key, EllipticCurvePublicKey)
        assert isinstance(key.curve, SECP256R1)
        assert text == picture_keys.public_key(stored()[f"{slot}-1"])
        assert text.endswith("-----END PUBLIC KEY-----\n")
    assert made["first"] != made["second"]


def test_repeated_deployment_keeps_keys_and_secret(manager, arn, stored):
    made, before = picture_keys.ensure(arn, BOTH), stored()
    versions = manager.describe_secret(SecretId=arn)["VersionIdsToStages"]
    assert picture_keys.ensure(arn, BOTH) == made
    assert (stored(), manager.describe_secret(SecretId=arn)["VersionIdsToStages"]) == (before, versions)


def test_rotation_gives_a_slot_another_key(arn, stored):
    made = picture_keys.ensure(arn, BOTH)
    assert picture_keys.ensure(arn, {"first": "none", "second": "1"}) == {"first": "", "second": made["second"]}
    after = picture_keys.ensure(arn, {"first": "2", "second": "1"})
    assert after["second"] == made["second"]
    assert after["first"] not in made.values()
    assert {"first-2", "second-1"} <= stored().keys()


def test_rolled_back_deployment_finds_its_keys(arn):
    """CloudFront refuses another public key under the same name, so a rollback must return the same one."""
    made = picture_keys.ensure(arn, BOTH)
    picture_keys.ensure(arn, {"first": "none", "second": "1"})
    assert picture_keys.ensure(arn, BOTH) == made
    picture_keys.ensure(arn, {"first": "2", "second": "none"})
    assert picture_keys.ensure(arn, BOTH) == made


def test_secret_stays_small_after_many_rotations(arn, stored):
    for version in range(2, 20):
        picture_keys.ensure(arn, {"first": str(version), "second": "1"})
    assert list(stored()) == ["first-17", "first-18", "first-19", "second-1"]


def test_stack_without_any_key_is_refused(arn, stored):
    with pytest.raises(ValueError, match="no slot has a key"):
        picture_keys.ensure(arn, {"first": "none", "second": "none"})
    assert stored() == {}


def test_signer_reads_its_key_by_name(arn, stored):
    picture_keys.ensure(arn, BOTH)
    assert StoredKey(arn, "second-1").pem() == stored()["second-1"]
    with pytest.raises(KeyError, match="first-2"):
        StoredKey(arn, "first-2").pem()
