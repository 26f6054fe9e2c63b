"""Signatures of KMS as tokens need them, and the public keys that check them."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError
from jwt import PyJWK

from artiway.platform import aws
from artiway.platform.kms import KmsSigner, public_jwks


@pytest.fixture
def kms():
    return aws.client("kms")


@pytest.fixture
def key_id(kms):
    return kms.create_key(KeyUsage="SIGN_VERIFY", KeySpec="ECC_NIST_P256")["KeyMetadata"]["KeyId"]


def test_signature_is_checked_by_public_key(key_id):
    signature = KmsSigner(key_id).sign(b"header.claims")
    (jwk,) = json.loads(public_jwks([key_id]))["keys"]
    key = PyJWK(jwk)
    assert len(signature) == 64
    assert key.Algorithm.verify(b"header.claims", key.key, signature)
    assert not key.Algorithm.verify(b"header.other", key.key, signature)


def test_each_public_key_has_its_own_id(kms, key_id):
    second = kms.create_key(KeyUsage="SIGN_VERIFY", KeySpec="ECC_NIST_P256")["KeyMetadata"]["KeyId"]
    keys = json.loads(public_jwks([key_id, second]))["keys"]
    assert [(key["kid"], key["alg"], key["crv"]) for key in keys] == [
        (key_id, "ES256", "P-256"),
        (second, "ES256", "P-256"),
    ]
    assert keys[0]["x"] != keys[1]["x"]


def test_key_of_another_kind_is_refused(kms):
    rsa = kms.create_key(KeyUsage="SIGN_VERIFY", KeySpec="RSA_2048")["KeyMetadata"]["KeyId"]
    with pytest.raises(TypeError, match="not an elliptic curve key"):
        public_jwks([rsa])


def test_key_that_is_not_there_raises(kms, key_id):
    with pytest.raises(ClientError, match="NotFoundException"):
        KmsSigner("00000000-0000-0000-0000-000000000000").sign(b"header.claims")
