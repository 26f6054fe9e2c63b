"""The signing key in KMS, and its public half as a JWKS."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from artiway.platform import aws

if TYPE_CHECKING:
    from mypy_boto3_kms import KMSClient

_COORDINATE_BYTES = 32


class KmsSigner:
    def __init__(self, key_id: str) -> None:
        self.key_id = key_id

    def sign(self, message: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        kms: KMSClient = aws.client("kms")
        answer = kms.sign(KeyId=self.key_id, Message=message, MessageType="RAW", SigningAlgorithm="ECDSA_SHA_256")
        r, s = decode_dss_signature(answer["Signature"])  # KMS returns DER, JOSE needs r || s
        return r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")


def public_jwks(key_ids: list[str]) -> str:
    """The public keys by the id in a token's header. There are two while a key is replaced."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import load_der_public_key
    from jwt.algorithms import ECAlgorithm

    kms: KMSClient = aws.client("kms")
    keys = []
    for key_id in key_ids:
        public_key = load_der_public_key(kms.get_public_key(KeyId=key_id)["PublicKey"])
        if not isinstance(public_key, EllipticCurvePublicKey):
            raise TypeError(f"key {key_id} is not an elliptic curve key")
        jwk = ECAlgorithm.to_jwk(public_key, as_dict=True)
        keys.append({**jwk, "kid": key_id, "alg": "ES256", "use": "sig"})
    return json.dumps({"keys": keys}, separators=(",", ":"))
