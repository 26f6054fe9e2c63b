"""Signatures of KMS as tokens need them, the public keys that check them, and the rotation of a key."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from uuid import uuid4

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from jwt import PyJWK, get_unverified_header

from artiway.errors import Unauthenticated
from artiway.identity import tokens
from artiway.identity.token_verifier import Verifier
from artiway.platform import aws
from artiway.platform.kms import KmsSigner, public_jwks
from tools.openapi import load_handler

ROOT = Path(__file__).parents[3]


class Body(BytesIO):
    def stream(self, **_):
        yield self.read()


@pytest.fixture
def kms():
    """KMS refuses the public key of a key that is disabled or waits for its deletion. moto answers with it."""
    client = aws.client("kms")

    def refuse(request, **_):
        if request.headers["X-Amz-Target"] != b"TrentService.GetPublicKey":
            return None
        try:
            state = client.describe_key(KeyId=json.loads(request.body)["KeyId"])["KeyMetadata"]["KeyState"]
        except ClientError:
            return None
        code = {"Disabled": "DisabledException", "PendingDeletion": "KMSInvalidStateException"}.get(state)
        body = Body(json.dumps({"__type": code, "message": state}).encode())
        return AWSResponse(request.url, 400, {"x-amzn-errortype": code}, body) if code else None

    client.meta.events.register_first("before-send", refuse)
    yield client
    client.meta.events.unregister("before-send", refuse)


@pytest.fixture
def new_key(kms):
    """The ARN of a new key, as an operator gets it from `aws kms create-key`."""
    return lambda spec="ECC_NIST_P256": kms.create_key(KeyUsage="SIGN_VERIFY", KeySpec=spec)["KeyMetadata"]["Arn"]


@pytest.fixture
def key(new_key):
    return new_key()


def id_of(arn):
    return arn.rpartition("/")[2]


def test_signature_is_checked_by_public_key(key):
    signature = KmsSigner(key).sign(b"header.claims")
    (jwk,) = json.loads(public_jwks([key], signing_key_id=key))["keys"]
    found = PyJWK(jwk)
    assert len(signature) == 64
    assert found.Algorithm.verify(b"header.claims", found.key, signature)
    assert not found.Algorithm.verify(b"header.other", found.key, signature)


def test_each_public_key_has_its_own_id(key, new_key):
    second = new_key()
    keys = json.loads(public_jwks(["", id_of(key), second, key], signing_key_id=key))["keys"]
    assert [(one["kid"], one["alg"], one["crv"]) for one in keys] == [
        (id_of(key), "ES256", "P-256"),
        (id_of(second), "ES256", "P-256"),
    ]
    assert keys[0]["x"] != keys[1]["x"]


@pytest.mark.parametrize("spec", ["RSA_2048", "ECC_NIST_P384", "ECC_SECG_P256K1"])
def test_key_of_another_kind_is_refused(new_key, spec):
    other = new_key(spec)
    with pytest.raises(TypeError, match="no key of the curve P-256"):
        public_jwks([other], signing_key_id=other)


def test_key_that_is_not_there_raises(key):
    missing = "00000000-0000-0000-0000-000000000000"
    with pytest.raises(ClientError, match="NotFoundException"):
        KmsSigner(missing).sign(b"header.claims")
    with pytest.raises(ClientError, match="NotFoundException"):
        public_jwks([key, missing], signing_key_id=key)


def test_signing_key_must_be_accepted(kms, key, new_key):
    second = new_key()
    kms.disable_key(KeyId=id_of(second))
    for key_ids, signing_key_id in (([key], second), ([key, second], second), ([], key), ([""], "")):
        with pytest.raises(ValueError, match="tokens would be signed by"):
            public_jwks(key_ids, signing_key_id=signing_key_id)


class Release:
    """A deployment: DeployFunction publishes the keys, AuthFunction signs, the authorizer verifies."""

    def __init__(self, *, key_ids, signing_key_id):
        deploy = load_handler(ROOT / "functions/deploy")
        made = deploy.handler({"action": "token-keys", "KeyIds": key_ids, "SigningKeyId": signing_key_id}, None)
        self._verifier = Verifier(made["Jwks"], issuer="artiway")
        self._signer = KmsSigner(signing_key_id)

    def token(self):
        who = {"tenant_id": uuid4(), "user_id": uuid4(), "permissions": ("task.read",), "family_id": str(uuid4())}
        return tokens.issue(self._signer, issuer="artiway", now=datetime.now(UTC), **who)

    def accepts(self, token):
        try:
            self._verifier.verify(token)
        except Unauthenticated:
            return False
        return True


def test_four_steps_replace_a_key(kms, key, new_key):
    """Every token stays valid from step to step, until the old key is dropped after the life of its last token."""
    successor = new_key()
    before = Release(key_ids=[id_of(key)], signing_key_id=id_of(key))
    old = before.token()
    added = Release(key_ids=[id_of(key), successor], signing_key_id=id_of(key))
    assert added.accepts(old)
    assert before.accepts(added.token()), "instances of the release before still run"
    signs = Release(key_ids=[id_of(key), successor], signing_key_id=successor)
    new = signs.token()
    assert (signs.accepts(old), signs.accepts(new), added.accepts(new)) == (True, True, True)
    dropped = Release(key_ids=[successor], signing_key_id=successor)
    assert (dropped.accepts(old), dropped.accepts(new)) == (False, True)
    kms.disable_key(KeyId=id_of(key))
    assert Release(key_ids=[successor], signing_key_id=successor).accepts(new)


def test_leaked_key_is_disabled_and_left_out(kms, key, new_key):
    """One deployment: the tokens of the leaked key end at once, also if it was not dropped from the list."""
    leaked = Release(key_ids=[id_of(key)], signing_key_id=id_of(key)).token()
    kms.disable_key(KeyId=id_of(key))
    successor = new_key()
    for key_ids in ([successor], [id_of(key), successor]):
        release = Release(key_ids=key_ids, signing_key_id=successor)
        assert not release.accepts(leaked)
        assert release.accepts(release.token())
    with pytest.raises(ValueError, match="disabled"):
        Release(key_ids=[id_of(key), successor], signing_key_id=id_of(key))


def test_key_that_waits_for_deletion_is_left_out(kms, key, new_key):
    kms.schedule_key_deletion(KeyId=id_of(key), PendingWindowInDays=7)
    successor = new_key()
    (found,) = json.loads(public_jwks([key, successor], signing_key_id=successor))["keys"]
    assert found["kid"] == id_of(successor)


def test_next_rotation_replaces_the_second_key(key, new_key):
    second, third = new_key(), new_key()
    old = Release(key_ids=[second], signing_key_id=second).token()
    both = Release(key_ids=[second, third], signing_key_id=third)
    assert both.accepts(old)
    assert not Release(key_ids=[third], signing_key_id=third).accepts(old)


def test_token_names_key_without_account(key):
    header = get_unverified_header(Release(key_ids=[key], signing_key_id=key).token())
    assert header["kid"] == id_of(key)
