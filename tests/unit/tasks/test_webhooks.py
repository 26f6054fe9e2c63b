"""Signatures, secrets and URLs of webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket

import pytest

from artiway.delivery.webhooks.model import new_secret, secret_key, signature, standard_signature
from artiway.delivery.webhooks.outbound import ANSWER_BYTES, WebhookPost
from artiway.platform.outbound import DEFAULT_PORTS, Answer, Client, DeadlineExceeded
from artiway.platform.settings import Settings


def verified(secret, headers, body):
    """A receiver as the specification of Standard Webhooks describes it, with nothing of ours."""
    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    assert 24 <= len(key) <= 64
    signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    entries = [entry.partition(",") for entry in headers["webhook-signature"].split(" ")]
    return any(version == "v1" and hmac.compare_digest(value, expected) for version, _, value in entries)


def signed(secret, body, *, message_id="dlv_1", timestamp=1_700_000_000):
    value = standard_signature(secret, message_id=message_id, timestamp=timestamp, body=body)
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": value}


def test_published_vector_has_its_published_signature():
    found = standard_signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330,
        body=b'{"test": 2432232314}',
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_standard_receiver_verifies_a_delivery():
    secret, body = new_secret(), '{"name": "漢"}'.encode()
    headers = signed(secret, body)
    assert verified(secret, headers, body)
    assert not verified(new_secret(), headers, body)
    assert not verified(secret, headers, body + b" ")
    for name in ("webhook-id", "webhook-timestamp"):
        assert not verified(secret, {**headers, name: "1"}, body)


def test_older_secret_has_bytes_in_url_alphabet():
    raw = bytes(range(223, 255))
    old = "whsec_" + base64.urlsafe_b64encode(raw).decode().rstrip("=")
    assert set("-_") & set(old.removeprefix("whsec_"))
    assert secret_key(old) == raw
    standard = "whsec_" + base64.b64encode(raw).decode()
    assert verified(standard, signed(old, b"{}"), b"{}")


@pytest.mark.parametrize("size", range(24, 65))
def test_older_and_newer_secrets_have_a_key(size):
    raw = secrets.token_bytes(size)
    assert secret_key("whsec_" + base64.b64encode(raw).decode()) == raw
    assert secret_key("whsec_" + base64.urlsafe_b64encode(raw).decode().rstrip("=")) == raw


def test_older_signature_covers_time_and_body():
    good = signature("whsec_x", timestamp=1, body=b"{}")
    assert good.startswith("v1=")
    assert good != signature("whsec_x", timestamp=2, body=b"{}")
    assert good != signature("whsec_x", timestamp=1, body=b"[]")
    assert good != signature("whsec_y", timestamp=1, body=b"{}")


def post_of(client):
    return WebhookPost(client, timeout_s=8, lookup_s=2)


def test_call_without_answer_has_no_code():
    class Cut:
        def call(self, *_, **__):
            raise DeadlineExceeded("too late")

    for post, url in ((post_of(Cut()), "https://x.example.com"), (post_of(Client()), "http://127.0.0.1/")):
        answer = post.post(url, b"{}", {})
        assert (answer.code, answer.is_taken) == (None, False)
        assert answer.text


def test_answer_is_stored_as_bounded_text():
    class Fixed:
        def call(self, method, url, **options):
            assert (method, options["answer_bytes"], options["is_start_enough"]) == ("POST", ANSWER_BYTES, True)
            return Answer(302, {}, b"a\0\xff")

    answer = post_of(Fixed()).post("https://x.example.com", b"{}", {})
    assert (answer.code, answer.text, answer.is_taken) == (302, "a\N{REPLACEMENT CHARACTER}", False)


def test_lookup_refuses_private_and_accepts_unknown_names():
    def resolve(host, _port):
        if host == "gone.example.com":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return ["10.0.0.1"]

    post = post_of(Client(resolve=resolve))
    assert post.refusal("https://gone.example.com/", is_looked_up=True) is None
    assert post.refusal("https://inside.example.com/", is_looked_up=False) is None
    assert "not public" in post.refusal("https://inside.example.com/", is_looked_up=True)


def test_default_ports_are_those_of_the_client():
    assert Settings.model_fields["outbound_ports"].default == DEFAULT_PORTS
