"""Addresses that CloudFront serves until a time: its canned policy, signed with ECDSA P-256 and SHA-256.

The signature covers the whole address with its query. It is deterministic (RFC 6979): every process gives the same
address for the same time, so that browsers can keep what they fetched.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

KEPT_ADDRESSES = 2_000
# CloudFront's alphabet: base64 without the characters that a query would encode.
_QUERY_SAFE = str.maketrans("+=/", "-_~")


class UrlSigner:
    """`key_id` is CloudFront's id of the public key, `private_key` returns the PEM of the other half."""

    def __init__(self, key_id: str, private_key: Callable[[], str]) -> None:
        self.key_id, self._private_key = key_id, private_key
        self.sign = lru_cache(maxsize=KEPT_ADDRESSES)(self._sign)

    @cached_property
    def _key(self) -> EllipticCurvePrivateKey:
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = load_pem_private_key(self._private_key().encode(), password=None)
        if not isinstance(key, EllipticCurvePrivateKey):
            raise TypeError("addresses are signed with a key of the curve P-256")
        return key

    def _sign(self, url: str, expires_at_s: int) -> str:
        """`url` has a query. It has no `*`, `"` or backslash: CloudFront reads `*` in a policy as any text."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        if set(url) & set('*"\\ ') or "?" not in url:
            raise ValueError("the address is not encoded")
        until = f'{{"DateLessThan":{{"AWS:EpochTime":{expires_at_s}}}}}'
        policy = f'{{"Statement":[{{"Resource":"{url}","Condition":{until}}}]}}'
        signed = self._key.sign(policy.encode(), ECDSA(SHA256(), deterministic_signing=True))
        signature = base64.b64encode(signed).decode().translate(_QUERY_SAFE)
        return f"{url}&Expires={expires_at_s}&Signature={signature}&Key-Pair-Id={self.key_id}&Hash-Algorithm=SHA256"
