"""What is believed, and what is not, before anything is done with it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from artiway.payments.model import Forged, PaymentAway, Undecryptable
from artiway.payments.wechat import Merchant, NotificationReader, merchant_from_json, verify
from artiway.platform.secrets import KEPT_S, Secret
from local.wechat_keys import Keys, Signer
from tests.fakes.clock import FixedClock

KEYS = Keys.generate()
NOW = datetime(2026, 3, 2, 4, tzinfo=UTC)


def merchant(**changes: object) -> Merchant:
    return Merchant.from_json(json.dumps({**KEYS.secret("http://127.0.0.1:1"), **changes}))


@pytest.fixture
def platform() -> Signer:
    return Signer(KEYS, lambda: NOW)


def test_one_changed_byte_breaks_the_signature(platform: Signer):
    body = '{"名": "值"}'.encode()
    headers = platform.sign(body)
    verify(merchant(), headers, body, now=NOW)
    for changed in (body + b" ", body[:-1], b""):
        with pytest.raises(Forged, match="signature"):
            verify(merchant(), headers, changed, now=NOW)


def test_empty_body_is_signed_as_well(platform: Signer):
    verify(merchant(), platform.sign(b""), b"", now=NOW)


@pytest.mark.parametrize(("seconds", "is_believed"), [(299, True), (-299, True), (300, False), (-300, False)])
def test_signature_lives_less_than_five_minutes_either_way(platform: Signer, seconds: int, is_believed: bool):
    headers, at = platform.sign(b"{}"), NOW + timedelta(seconds=seconds)
    if is_believed:
        verify(merchant(), headers, b"{}", now=at)
    else:
        with pytest.raises(Forged, match="stale"):
            verify(merchant(), headers, b"{}", now=at)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Wechatpay-Signature": ""}, "unsigned"),
        ({"Wechatpay-Signature": "WECHATPAY/SIGNTEST/abc"}, "probe"),
        ({"Wechatpay-Signature": "not base64!"}, "signature"),
        ({"Wechatpay-Signature-Type": "WECHATPAY2-SM2-WITH-SM3"}, "signature_type"),
        ({"Wechatpay-Serial": "PUB_KEY_ID_1"}, "unknown_serial"),
        ({"Wechatpay-Timestamp": "soon"}, "timestamp"),
        ({"Wechatpay-Timestamp": "١٢٣"}, "timestamp"),
        ({"Wechatpay-Timestamp": "9" * 400}, "timestamp"),
        ({"Wechatpay-Nonce": "another"}, "signature"),
    ],
)
def test_changed_header_is_refused_with_its_reason(platform: Signer, changes: dict[str, str], reason: str):
    with pytest.raises(Forged) as refusal:
        verify(merchant(), {**platform.sign(b"{}"), **changes}, b"{}", now=NOW)
    assert refusal.value.reason == reason


def test_signature_type_is_optional_and_names_any_case(platform: Signer):
    headers = {name.lower(): value for name, value in platform.sign(b"{}").items()}
    del headers["wechatpay-signature-type"]
    verify(merchant(), headers, b"{}", now=NOW)


def test_only_keys_of_the_secret_are_accepted(platform: Signer):
    for sign_with in ("pub", "cert"):
        verify(merchant(), platform.sign(b"{}", sign_with), b"{}", now=NOW)
    with pytest.raises(Forged, match="unknown_serial"):
        verify(merchant(platformCertificates=[]), platform.sign(b"{}", "cert"), b"{}", now=NOW)
    only_certificate = merchant(platformPublicKeyId=None, platformPublicKeyPem=None)
    assert only_certificate.wanted_serial == KEYS.certificate_serial


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{}", b'{"id": 1, "event_type": "X", "resource": {"ciphertext": "!", "nonce": "0"}}', b"\xff", b'"x"'],
)
def test_signed_nonsense_is_undecryptable(platform: Signer, body: bytes):
    with pytest.raises(Undecryptable):
        NotificationReader(merchant, FixedClock(NOW)).read(platform.sign(body), body)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"privateKeyPem": "x"}', json.dumps({"apiV3Key": "short"})])
def test_incomplete_secret_makes_payments_unavailable(text: str):
    with pytest.raises(PaymentAway) as refusal:
        Merchant.from_json(text)
    assert refusal.value.status == 503
    assert "short" not in str(refusal.value)


def test_merchant_shows_none_of_its_keys():
    shown = f"{merchant()!r} {merchant()}"
    assert KEYS.api_v3_key not in shown
    assert "private" not in shown.lower()


def test_rotated_platform_key_works_without_deployment(platform: Signer, monkeypatch: pytest.MonkeyPatch):
    """However many forged callbacks arrive, the secret is read once per while."""
    text = json.dumps({**KEYS.secret("http://x"), "platformPublicKeyId": "PUB_KEY_ID_OLD"})
    reads = []

    class Manager:
        def get_secret_value(self, **_: object) -> dict[str, str]:
            reads.append(1)
            return {"SecretString": text}

    monkeypatch.setattr("artiway.platform.secrets.aws.client", lambda _service: Manager())
    elapsed = [0.0]
    secret = Secret("arn", now=lambda: elapsed[0])
    reader = NotificationReader(lambda: merchant_from_json(secret.text()), FixedClock(NOW))
    body = b"{}"
    for _ in range(50):
        with pytest.raises(Forged, match="unknown_serial"):
            reader.read(platform.sign(body), body)
    assert len(reads) == 1
    text = json.dumps(KEYS.secret("http://x"))
    elapsed[0] = KEPT_S
    with pytest.raises(Undecryptable):  # verified now: an empty body cannot be opened
        reader.read(platform.sign(body), body)
    assert len(reads) == 2
