"""Addresses of pictures: what is signed, by which key, and what the viewer can change."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore.signers import CloudFrontSigner
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.hashes import SHA256
from yarl import URL

from artiway.delivery.uploads.repository import CloudFrontPictures
from artiway.platform import picture_keys
from artiway.platform.signed_urls import UrlSigner
from local.pictures import Pictures, key_id, public_keys

OLD, NEW, OTHER = (picture_keys.new_key() for _ in range(3))
SECRET = json.dumps({"first-1": OLD, "second-1": NEW})
HERE = "http://127.0.0.1:8700"
KEY = "outputs/t1/task/node/1/cutout.png"
NOW = 1_794_940_000


def signer(private: str = OLD, name: str = "first-1") -> UrlSigner:
    return UrlSigner(key_id(name), lambda: private)


def edge(*names: str, now: float = NOW) -> Pictures:
    keys = public_keys(SECRET, names or ("first-1", "second-1"))
    return Pictures("http://127.0.0.1:1", "bucket", keys, now=lambda: now)


def address(signing: UrlSigner, key: str = KEY, file_name: str | None = None, content_type: str = "image/png") -> str:
    until = datetime.fromtimestamp(NOW + 900, UTC)
    pictures = CloudFrontPictures(signing)
    return pictures.address(key, base_url=HERE, content_type=content_type, expires_at=until, file_name=file_name)


class TestSignature:
    def test_policy_is_that_of_amazons_signer(self) -> None:
        """botocore builds the policy and the address itself; the hash alone is named by a later parameter."""
        url = address(signer())
        plain = url.partition("&Expires=")[0]
        policies: list[bytes] = []
        until = datetime.fromtimestamp(NOW + 900)  # noqa: DTZ006 (botocore reads local time)
        theirs = CloudFrontSigner("KFIRST1", lambda policy: policies.append(policy) or b"").generate_presigned_url(
            plain, date_less_than=until
        )
        given = dict(parse_qsl(urlsplit(url).query))
        signature = base64.b64decode(given["Signature"].translate(str.maketrans("-_~", "+=/")))
        (key,) = public_keys(SECRET, ["first-1"]).values()
        key.verify(signature, policies[0], ECDSA(SHA256()))
        assert url == theirs.replace("Signature=", f"Signature={given['Signature']}") + "&Hash-Algorithm=SHA256"

    def test_every_process_gives_the_same_address(self) -> None:
        assert address(signer()) == address(signer())

    def test_address_is_signed_once_in_its_window(self) -> None:
        signing = signer()
        address(signing)
        address(signing)
        assert (signing.sign.cache_info().hits, signing.sign.cache_info().misses) == (1, 1)

    @pytest.mark.parametrize("url", ["https://x/a*?b", 'https://x/a"?b', "https://x/a b?c", "https://x/a"])
    def test_address_that_could_match_others_is_refused(self, url: str) -> None:
        with pytest.raises(ValueError, match="not encoded"):
            signer().sign(url, NOW)

    def test_key_of_another_kind_is_refused(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        with pytest.raises(TypeError, match="P-256"):
            address(signer(Ed25519PrivateKey.generate().private_bytes(*form).decode()))


class TestEdge:
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("/t1/", "/t2/"),
            ("/outputs/", "/models/"),
            ("127.0.0.1", "localhost"),
            ("image/png", "text/html"),
            ("immutable", "public"),
            (f"Expires={NOW + 900}", f"Expires={NOW + 901}"),
            (f"Expires={NOW + 900}", "Expires=x"),
            (f"Expires={NOW + 900}", "Expires=٣"),
            ("KFIRST1", "KSECOND1"),
            ("KFIRST1", "KOTHER"),
            ("SHA256", "SHA1"),
            ("&Hash-Algorithm=SHA256", ""),
            ("&Key-Pair-Id=KFIRST1", ""),
            ("&Signature=", "&Signature=A"),
            ("&Signature=", "&signature="),
            ("&Signature=", "&Policy=e30_&Signature="),
            ("?response", "?x=1&response"),
            ("&Expires", "&response-content-disposition=attachment&Expires"),
        ],
    )
    def test_changed_address_is_refused(self, old: str, new: str) -> None:
        url = address(signer())
        assert url.count(old) == 1
        assert edge().is_signed(url)
        assert not edge().is_signed(url.replace(old, new))

    @pytest.mark.parametrize(
        "url", [f"{HERE}/{KEY}", f"{HERE}/{KEY}?", f"{HERE}/{KEY}?Expires=1&Signature=&Key-Pair-Id="]
    )
    def test_unsigned_address_is_refused(self, url: str) -> None:
        assert not edge().is_signed(url)

    @pytest.mark.parametrize(("now", "is_valid"), [(NOW + 899.9, True), (NOW + 900, False), (NOW + 9_000, False)])
    def test_address_ends_at_its_second(self, now: float, is_valid: bool) -> None:
        assert edge(now=now).is_signed(address(signer())) is is_valid

    def test_other_key_under_known_id_is_refused(self) -> None:
        assert not edge().is_signed(address(signer(OTHER)))

    def test_rotation_has_no_gap(self) -> None:
        """The steps of docs/deploy.md: the key group of each, and the addresses that were given before and after."""
        old, new = address(signer()), address(signer(NEW, "second-1"))
        for names, accepted in (
            (("first-1", "second-1"), [True, True]),
            (("second-1",), [False, True]),
        ):
            assert [edge(*names).is_signed(url) for url in (old, new)] == accepted


class TestAddress:
    def test_only_pictures_are_shown(self) -> None:
        for kind in ("image/svg+xml", "text/html", "application/xhtml+xml", ""):
            query = dict(parse_qsl(urlsplit(address(signer(), content_type=kind)).query))
            assert query["response-content-type"] == "application/octet-stream"

    def test_name_reaches_s3_as_it_is(self) -> None:
        query = dict(parse_qsl(urlsplit(address(signer(), file_name="夏季-2026-11-17-1.png")).query))
        assert query["response-content-disposition"] == (
            "attachment; filename=\"__-2026-11-17-1.png\"; filename*=UTF-8''%E5%A4%8F%E5%AD%A3-2026-11-17-1.png"
        )

    @pytest.mark.parametrize("name", [None, "cutout-2026-11-17-1.png"])
    def test_client_that_rewrites_addresses_keeps_it(self, name: str | None) -> None:
        url = address(signer(), file_name=name)
        assert str(URL(url)) == url
