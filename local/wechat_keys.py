"""Keys of the WeChat Pay simulator and the signatures made with them."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

SCHEMA = "WECHATPAY2-SHA256-RSA2048"
CLOCK_SKEW_S = 300
Json = dict[str, Any]


@dataclass
class Keys:
    """The merchant's key pair, and two key pairs of WeChat Pay: one published as a key, one as a certificate."""

    mchid: str
    appid: str
    serial_no: str
    api_v3_key: str
    merchant_pem: str
    platform_pem: str
    platform_id: str
    certificate_key_pem: str
    certificate_pem: str
    certificate_serial: str

    @staticmethod
    def generate() -> Keys:
        certificate_key = new_key()
        serial = x509.random_serial_number()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Simulated Tenpay.com Root CA")])
        start = datetime(2024, 1, 1, tzinfo=UTC)
        certificate = (
            x509.CertificateBuilder(name, name, certificate_key.public_key(), serial)
            .not_valid_before(start)
            .not_valid_after(start + timedelta(days=3_650))
            .sign(certificate_key, hashes.SHA256())
        )
        return Keys(
            mchid="1900000109",
            appid="wxd678efh567hg6787",
            serial_no=secrets.token_hex(20).upper(),
            api_v3_key=secrets.token_hex(16),
            merchant_pem=to_pem(new_key()),
            platform_pem=to_pem(new_key()),
            platform_id=f"PUB_KEY_ID_{secrets.randbelow(10**28):028d}",
            certificate_key_pem=to_pem(certificate_key),
            certificate_pem=certificate.public_bytes(serialization.Encoding.PEM).decode(),
            certificate_serial=f"{serial:X}",
        )

    def secret(self, base_url: str) -> Json:
        """The merchant's secret as the platform reads it."""
        return {
            "baseUrl": base_url,
            "mchid": self.mchid,
            "appid": self.appid,
            "serialNo": self.serial_no,
            "privateKeyPem": self.merchant_pem,
            "apiV3Key": self.api_v3_key,
            "platformPublicKeyId": self.platform_id,
            "platformPublicKeyPem": public_pem(self.platform_pem),
            "platformCertificates": [{"serialNo": self.certificate_serial, "certificatePem": self.certificate_pem}],
        }


class Signer:
    """Signs as WeChat Pay does; `age_s` dates a signature back."""

    def __init__(self, keys: Keys, now: Callable[[], datetime]) -> None:
        self._now = now
        self._signers = {
            "pub": (keys.platform_id, load_key(keys.platform_pem)),
            "cert": (keys.certificate_serial, load_key(keys.certificate_key_pem)),
        }

    def sign(self, body: bytes, sign_with: str = "pub", *, age_s: int = 0) -> dict[str, str]:
        serial, key = self._signers[sign_with]
        timestamp, nonce = str(int(self._now().timestamp()) - age_s), secrets.token_hex(16)
        signature = key.sign(
            b"\n".join([timestamp.encode(), nonce.encode(), body, b""]), padding.PKCS1v15(), hashes.SHA256()
        )
        return {
            "Wechatpay-Timestamp": timestamp,
            "Wechatpay-Nonce": nonce,
            "Wechatpay-Serial": serial,
            "Wechatpay-Signature": base64.b64encode(signature).decode(),
            "Wechatpay-Signature-Type": SCHEMA,
        }


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def to_pem(key: rsa.RSAPrivateKey) -> str:
    encryption = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


def load_key(pem: str) -> rsa.RSAPrivateKey:
    key = serialization.load_pem_private_key(pem.encode(), password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


def public_pem(pem: str) -> str:
    public = load_key(pem).public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return public.public_bytes(serialization.Encoding.PEM, form).decode()
