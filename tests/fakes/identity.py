"""Fakes for the services of identity: a signing key, passwords, WeChat, locations, revocations."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from jwt.algorithms import ECAlgorithm

from artiway.identity.model import WechatPerson


class LocalSigner:
    """Signs as KMS does, with a key that lives in the test."""

    def __init__(self) -> None:
        self.key_id = uuid4().hex
        self._key = ec.generate_private_key(ec.SECP256R1())

    def sign(self, message: bytes) -> bytes:
        parts = decode_dss_signature(self._key.sign(message, ec.ECDSA(SHA256())))
        return b"".join(part.to_bytes(32, "big") for part in parts)

    def jwk(self) -> dict[str, str]:
        jwk = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {**jwk, "kid": self.key_id, "alg": "ES256", "use": "sig"}


class QuickPasswords:
    """Fast and not secure: for tests that need no argon2."""

    def __init__(self) -> None:
        self.checked = 0

    def hash(self, password: str) -> str:
        return f"quick:{password}"

    def matches(self, password_hash: str | None, password: str) -> bool:
        self.checked += 1
        return password_hash == f"quick:{password}"

    def is_outdated(self, password_hash: str) -> bool:
        return not password_hash.startswith("quick:")


class FakeWechatLogin:
    """A code is the person: `appid/openid` or `appid/openid/unionid`."""

    def exchange(self, app: str, code: str) -> WechatPerson:
        openid, _, unionid = code.partition("/")
        return WechatPerson(f"wx-{app}", f"{app}-{openid}", unionid or None)


class FakeLocator:
    def begin(self, address: str) -> Callable[[], str]:
        return lambda: f"near {address}"


class RecordedRevocations:
    """Records the cache entries that it was asked to drop."""

    def __init__(self) -> None:
        self.dropped: list[str] = []

    def forget_session(self, tenant_id: object, session_id: object) -> None:
        self.dropped.append(f"session {session_id}")

    def forget_key(self, tenant_id: object, key_id: object) -> None:
        self.dropped.append(f"key {key_id}")

    def forget_tenant(self, tenant_id: object) -> None:
        self.dropped.append(f"tenant {tenant_id}")
