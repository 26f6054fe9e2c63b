"""The key pairs that sign addresses of pictures, in one secret: {"first-1": <private key>, "second-1": …}.

A deployment makes each key that it wants and the secret lacks. A key never changes under its name, because CloudFront
cannot change a public key.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from artiway.platform import aws
from artiway.platform.secrets import Secret

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

SLOTS = ("first", "second")
# A slot without a key.
NONE = "none"
# Keys that no slot has any more stay for the rollback of a deployment. CloudFront does not accept them.
KEPT_KEYS = 2


class StoredKey:
    def __init__(self, secret_arn: str, name: str) -> None:
        self._secret, self._name = Secret(secret_arn), name

    def pem(self) -> str:
        """The private key. Raises KeyError for one that no deployment made."""
        return str(json.loads(self._secret.text())[self._name])


def ensure(secret_arn: str, versions: dict[str, str]) -> dict[str, str]:
    """The public key of each slot as PEM, empty for a slot without one. `versions` is slot -> version of its key."""
    secrets: SecretsManagerClient = aws.client("secretsmanager")
    stored: dict[str, str] = json.loads(secrets.get_secret_value(SecretId=secret_arn)["SecretString"])
    names = {slot: name_of(slot, version) for slot, version in versions.items()}
    wanted = [name for name in names.values() if name]
    if not wanted:
        raise ValueError("no slot has a key, so that no picture could be shown")
    others = [name for name in stored if name not in wanted][-KEPT_KEYS:]
    keys = {name: stored[name] for name in others} | {name: stored.get(name) or new_key() for name in wanted}
    if keys != stored:
        secrets.put_secret_value(SecretId=secret_arn, SecretString=json.dumps(keys))
    return {slot: public_key(keys[name]) if name else "" for slot, name in names.items()}


def name_of(slot: str, version: str) -> str:
    return "" if version == NONE else f"{slot}-{version}"


def public_key(private: str) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    key = load_pem_private_key(private.encode(), password=None).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def new_key() -> str:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = generate_private_key(SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
