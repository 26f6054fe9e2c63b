"""Access tokens and the authorizer: what is genuine passes, everything else is named."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from artiway.errors import Unauthenticated
from artiway.identity import tokens
from artiway.identity.token_verifier import Verifier
from artiway.identity.tokens import TokenExpired
from tests.fakes.identity import LocalSigner
from tools.openapi import load_handler

ROOT = Path(__file__).parents[3]
ISSUER = "artiway"


@pytest.fixture(scope="module")
def signer():
    return LocalSigner()


@pytest.fixture(scope="module")
def verifier(signer):
    return Verifier(json.dumps({"keys": [signer.jwk()]}), issuer=ISSUER)


def issue(signer, **changes):
    facts = {
        "issuer": ISSUER,
        "tenant_id": uuid4(),
        "user_id": uuid4(),
        "permissions": ("task.read", "points.read"),
        "family_id": str(uuid4()),
        "now": datetime.now(UTC),
    }
    return tokens.issue(signer, **{**facts, **changes})


def forged(signer, token, *, header=None, claims=None, without=()):
    """The same token with other words in it, signed anew with our own key."""
    head, payload, _ = token.split(".")
    words = {**_decoded(head), **(header or {})}, {**_decoded(payload), **(claims or {})}
    for name in without:
        words[1].pop(name)
    message = ".".join(_encoded(json.dumps(part).encode()) for part in words)
    return f"{message}.{_encoded(signer.sign(message.encode()))}"


def _decoded(part):
    return json.loads(base64.urlsafe_b64decode(part + "=="))


def _encoded(part):
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def test_token_contains_user_and_permissions(signer, verifier):
    tenant_id, user_id = uuid4(), uuid4()
    claims = verifier.verify(issue(signer, tenant_id=tenant_id, user_id=user_id))
    assert (claims.tenant_id, claims.user_id) == (tenant_id, user_id)
    assert claims.permissions == ("task.read", "points.read")
    assert claims.expires_at - claims.issued_at == 900


def test_token_of_previous_key_is_accepted(signer):
    old = LocalSigner()
    both = Verifier(json.dumps({"keys": [signer.jwk(), old.jwk()]}), issuer=ISSUER)
    assert both.verify(issue(old))
    assert both.verify(issue(signer))


def test_expired_token_says_so(signer, verifier):
    with pytest.raises(TokenExpired):
        verifier.verify(issue(signer, now=datetime.now(UTC) - timedelta(seconds=901)))


@pytest.mark.parametrize(
    "change",
    [
        {"header": {"alg": "none"}},
        {"header": {"alg": "HS256"}},
        {"header": {"typ": "JWT"}},
        {"header": {"kid": "unknown"}},
        {"header": {"kid": ["list"]}},
        {"claims": {"aud": "another-app"}},
        {"claims": {"iss": "another-app"}},
        {"claims": {"tid": "not a uuid"}},
        {"claims": {"tid": 7}},
        {"claims": {"iat": "yesterday"}},
        {"claims": {"nbf": 4_102_444_800}},
        *({"without": [name]} for name in ("exp", "iat", "sub", "jti", "iss", "aud", "tid", "fam", "per")),
    ],
    ids=str,
)
def test_token_that_is_not_exactly_ours_is_refused(signer, verifier, change):
    with pytest.raises(Unauthenticated) as refusal:
        verifier.verify(forged(signer, issue(signer), **change))
    assert refusal.value.code == "AUTH_401_TOKEN_INVALID"


def test_signature_of_another_key_is_refused(signer, verifier):
    other = LocalSigner()
    other.key_id = signer.key_id
    with pytest.raises(Unauthenticated):
        verifier.verify(issue(other))


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "eyJ.eyJ.eyJ", "x" * 9_000, "\ud800", "é.é.é"])
def test_invalid_token_is_refused(verifier, token):
    with pytest.raises(Unauthenticated):
        verifier.verify(token)


def test_unsigned_token_is_refused(verifier, signer):
    claims = jwt.decode(issue(signer), options={"verify_signature": False})
    headers = {"kid": signer.key_id, "typ": tokens.TOKEN_TYPE}
    for token in (
        jwt.encode(claims, None, algorithm="none", headers=headers),
        jwt.encode(claims, "a shared secret of some thirty-two bytes", algorithm="HS256", headers=headers),
        jwt.encode(claims, ec.generate_private_key(ec.SECP256R1()), algorithm="ES256", headers=headers),
        jwt.encode(claims, rsa.generate_private_key(65537, 2048), algorithm="RS256", headers=headers),
    ):
        with pytest.raises(Unauthenticated):
            verifier.verify(token)


# --- the authorizer


@pytest.fixture
def authorize(signer, monkeypatch):
    monkeypatch.setenv("ARTIWAY_TOKEN_JWKS", json.dumps({"keys": [signer.jwk()]}))
    monkeypatch.setenv("ARTIWAY_TOKEN_ISSUER", ISSUER)
    handler = load_handler(ROOT / "functions/authorizer").handler

    def call(authorization=None):
        headers = {} if authorization is None else {"authorization": authorization}
        answer = handler({"headers": headers}, None)
        assert answer["isAuthorized"] is True
        return answer["context"]

    return call


def test_authorizer_passes_the_identity_on(signer, authorize):
    session_id = uuid4()
    found = authorize(f"Bearer {issue(signer, family_id=str(session_id))}")
    assert found["permissions"] == "task.read points.read"
    assert found["sessionId"] == str(session_id)
    assert set(found) == {"tenantId", "userId", "permissions", "tokenId", "sessionId"}


@pytest.mark.parametrize("authorization", [None, "none", "Basic YTpi", "Bearer", "Bearer ", "Bearer x"])
def test_authorizer_passes_the_error_code_on(authorize, authorization):
    assert authorize(authorization) == {"error": "AUTH_401_TOKEN_INVALID"}


def test_authorizer_distinguishes_expired_from_invalid_tokens(signer, authorize):
    assert authorize(f"bearer {issue(signer, now=datetime.now(UTC) - timedelta(hours=1))}") == {
        "error": "AUTH_401_TOKEN_EXPIRED"
    }


def test_authorizer_leaves_api_keys_to_the_access_check(authorize):
    assert authorize("Bearer ak_0123") == {"apiKey": "1"}
