"""Takes CloudFront's place for pictures: checks the signed address as CloudFront does, then reads the object."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

import aiohttp
from aiohttp import web
from botocore.config import Config
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from yarl import URL

from local import emulator

PREFIX = "/outputs/"
SIGNED_BY = ("Expires", "Signature", "Key-Pair-Id", "Hash-Algorithm", "Policy")
# Those of the cache policy go to S3; any other parameter stays here.
FORWARDED = ("response-cache-control", "response-content-disposition", "response-content-type")
CONDITIONS = ("Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since")
ANSWERED = (
    "Accept-Ranges", "Cache-Control", "Content-Disposition", "Content-Length", "Content-Range", "Content-Type", "ETag",
    "Last-Modified",
)  # fmt: skip
# Those of the response headers policy. The edge speaks no TLS, so it sends no Strict-Transport-Security.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-site",
}
STATUSES = {200, 206, 304, 412, 416}
DENIED = (
    '<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code><Message>Access denied</Message></Error>'
)
PublicKeys = Mapping[str, EllipticCurvePublicKey]


def key_id(name: str) -> str:
    """CloudFront's id of the public key with this name: "first-1" -> "KFIRST1"."""
    return f"K{name.replace('-', '').upper()}"


def public_keys(secret: str, names: Sequence[str]) -> PublicKeys:
    stored = json.loads(secret)
    found = {}
    for name in names:
        key = load_pem_private_key(stored[name].encode(), password=None).public_key()
        assert isinstance(key, EllipticCurvePublicKey)
        found[key_id(name)] = key
    return found


class Pictures:
    """`keys` is the key group: CloudFront's ids and the public keys."""

    def __init__(self, aws_url: str, bucket: str, keys: PublicKeys, *, now: Callable[[], float] = time.time) -> None:
        self._s3 = emulator.client("s3", aws_url, Config(signature_version="s3v4"))
        self._bucket, self._keys, self._now = bucket, keys, now

    def is_signed(self, url: str) -> bool:
        """Whether a key of the group signed exactly this address, for a time that is not over. No custom policies."""
        address, _, query = url.partition("?")
        pairs = [pair.partition("=") for pair in query.split("&")]
        given = {name: value for name, _, value in pairs if name in SIGNED_BY}
        own = "&".join(name + equals + value for name, equals, value in pairs if name not in SIGNED_BY)
        key = self._keys.get(given.get("Key-Pair-Id", ""))
        expires = given.get("Expires", "")
        is_whole = "Policy" not in given and given.get("Hash-Algorithm") == "SHA256"
        if key is None or not is_whole or not expires.isascii() or not expires.isdigit() or len(expires) > 12:
            return False
        condition = {"DateLessThan": {"AWS:EpochTime": int(expires)}}
        policy = {"Statement": [{"Resource": f"{address}?{own}" if own else address, "Condition": condition}]}
        text = given.get("Signature", "").translate(str.maketrans("-_~", "+=/"))
        try:
            signature = base64.b64decode(text, validate=True)
            key.verify(signature, json.dumps(policy, separators=(",", ":")).encode(), ECDSA(SHA256()))
        except (InvalidSignature, binascii.Error, ValueError):
            return False
        return self._now() < int(expires)

    async def answer(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        """A missing object is refused like a wrong signature: the distribution may not list the bucket."""
        if request.method not in {"GET", "HEAD"} or not self.is_signed(f"http://{request.host}{request.raw_path}"):
            return _denied()
        names = {name: name.title().replace("-", "") for name in FORWARDED if name in request.query}
        wanted = {parameter: request.query[name] for name, parameter in names.items()}
        key = unquote(request.rel_url.raw_path).removeprefix("/")
        verb = "get_object" if request.method == "GET" else "head_object"
        url = self._s3.generate_presigned_url(verb, Params={"Bucket": self._bucket, "Key": key, **wanted}, ExpiresIn=60)
        headers = {name: request.headers[name] for name in CONDITIONS if name in request.headers}
        async with session.request(request.method, URL(url, encoded=True), headers=headers) as answer:
            if answer.status not in STATUSES:
                return _denied()
            kept = {name: answer.headers[name] for name in ANSWERED if name in answer.headers}
            response = web.StreamResponse(status=answer.status, headers={**kept, **HEADERS})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


def _denied() -> web.Response:
    return web.Response(status=403, text=DENIED, content_type="text/xml", headers=HEADERS)
