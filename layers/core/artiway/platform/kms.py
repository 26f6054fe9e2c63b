"""Keys in KMS: the signing key with its public half as a JWKS, and keys that encrypt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from artiway.platform import aws
from artiway.platform.logs import Logger

if TYPE_CHECKING:
    from mypy_boto3_kms import KMSClient

logger = Logger("kms")
_COORDINATE_BYTES = 32
# A disabled key, and one that waits for its deletion.
_UNUSABLE = {"DisabledException", "KMSInvalidStateException"}
_UNREADABLE = {"InvalidCiphertextException", "IncorrectKeyException"}


class KmsSigner:
    """`key_id` is the id of a key, or its ARN."""

    def __init__(self, key_id: str) -> None:
        self.key_id, self._key = name_of(key_id), key_id

    def sign(self, message: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        kms: KMSClient = aws.client("kms")
        answer = kms.sign(KeyId=self._key, Message=message, MessageType="RAW", SigningAlgorithm="ECDSA_SHA_256")
        r, s = decode_dss_signature(answer["Signature"])  # KMS returns DER, JOSE needs r || s
        return r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")


def public_jwks(key_ids: list[str], *, signing_key_id: str) -> str:
    """The public keys by the id in a token's header. There are two while a key is replaced.

    A disabled key is left out: its tokens are no longer accepted. The key that signs must be among the keys.
    """
    from botocore.exceptions import ClientError

    keys = {}
    for key_id in key_ids:
        if not key_id or name_of(key_id) in keys:  # an empty list of CloudFormation has one empty entry
            continue
        try:
            keys[name_of(key_id)] = _public_jwk(key_id)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _UNUSABLE:
                raise
            logger.warning("token key left out", key_id=name_of(key_id), reason=error.response["Error"]["Code"])
    if name_of(signing_key_id) not in keys:
        raise ValueError(f"tokens would be signed by {name_of(signing_key_id)}, which is disabled or not accepted")
    return json.dumps({"keys": list(keys.values())}, separators=(",", ":"))


def name_of(key_id: str) -> str:
    """The id in an ARN: tokens do not name the account."""
    return key_id.rpartition("/")[2]


def _public_jwk(key_id: str) -> dict[str, str]:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import load_der_public_key
    from jwt.algorithms import ECAlgorithm

    kms: KMSClient = aws.client("kms")
    public_key = load_der_public_key(kms.get_public_key(KeyId=key_id)["PublicKey"])
    if not isinstance(public_key, EllipticCurvePublicKey) or not isinstance(public_key.curve, SECP256R1):
        raise TypeError(f"key {name_of(key_id)} is no key of the curve P-256")
    return {**ECAlgorithm.to_jwk(public_key, as_dict=True), "kid": name_of(key_id), "alg": "ES256", "use": "sig"}


class NotDecrypted(ValueError):
    """The ciphertext is damaged, of another key, or was made with another context."""


class KmsCipher:
    """Encrypts up to 4 KB by a key that never leaves KMS. Decryption needs the context of the encryption."""

    def __init__(self, key_id: str) -> None:
        self._key_id = key_id

    def encrypt(self, plaintext: bytes, context: Mapping[str, str]) -> bytes:
        kms: KMSClient = aws.client("kms")
        return kms.encrypt(KeyId=self._key_id, Plaintext=plaintext, EncryptionContext=context)["CiphertextBlob"]

    def decrypt(self, ciphertext: bytes, context: Mapping[str, str]) -> bytes:
        from botocore.exceptions import ClientError

        kms: KMSClient = aws.client("kms")
        try:
            # With the key's id KMS refuses what another key has encrypted.
            answer = kms.decrypt(KeyId=self._key_id, CiphertextBlob=ciphertext, EncryptionContext=context)
        except ClientError as error:
            if error.response["Error"]["Code"] in _UNREADABLE:
                raise NotDecrypted("the ciphertext cannot be decrypted") from error
            raise
        return answer["Plaintext"]
