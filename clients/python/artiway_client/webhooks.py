"""Verify a delivery (Standard Webhooks). Needs nothing but the standard library."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

TOLERANCE_S = 300


class InvalidSignature(Exception):
    """Not sent by the platform, or altered, or too old."""


def verify(
    secret: str,
    headers: Mapping[str, str],
    body: bytes | str,
    *,
    tolerance_s: float = TOLERANCE_S,
    now: float | None = None,
) -> dict[str, Any]:
    """The delivery's content. `body` as it was received: parsing and writing it again changes it.

    A delivery may arrive twice: drop a `webhook-id` that you have seen.
    """
    raw = body.encode() if isinstance(body, str) else body
    given = {name.lower(): value for name, value in headers.items()}
    try:
        name, at, signatures = (given[f"webhook-{part}"] for part in ("id", "timestamp", "signature"))
        age_s = abs((time.time() if now is None else now) - int(at))
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (KeyError, ValueError, binascii.Error) as error:
        raise InvalidSignature("a header is missing or malformed, or the secret is not base64") from error
    if age_s > tolerance_s:
        raise InvalidSignature(f"the timestamp is {age_s:.0f} s off; {tolerance_s:.0f} s are accepted")
    wanted = base64.b64encode(hmac.new(key, f"{name}.{at}.".encode() + raw, hashlib.sha256).digest()).decode()
    entries = (entry.partition(",") for entry in signatures.split())
    if not any(version == "v1" and hmac.compare_digest(value, wanted) for version, _, value in entries):
        raise InvalidSignature("no signature matches")
    content: dict[str, Any] = json.loads(raw)
    return content
