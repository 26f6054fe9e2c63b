"""Addresses with a signature of AWS (version 4) in their query, made without botocore: pure computation, no I/O.

botocore takes about nine times as long for the same address, and its import is the slowest part of a cold start.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote

UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY = hashlib.sha256(b"").hexdigest()


def presigned(
    method: str,
    host: str,
    path: str,
    *,
    service: str,
    region: str,
    at: datetime,
    expires_s: int,
    environment: Mapping[str, str],
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    payload: str = UNSIGNED,
) -> str:
    """The address without its scheme, signed with the credentials in `environment`.

    `headers`, in lower case, must be sent exactly as they are here. `payload` is the body's hash, or UNSIGNED.
    """
    day, instant = at.strftime("%Y%m%d"), at.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{day}/{region}/{service}/aws4_request"
    signed = {"host": host, **(headers or {})}
    names = ";".join(sorted(signed))
    parameters = {
        **(query or {}),
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{environment['AWS_ACCESS_KEY_ID']}/{scope}",
        "X-Amz-Date": instant,
        "X-Amz-Expires": str(expires_s),
        "X-Amz-SignedHeaders": names,
    }
    if session_token := environment.get("AWS_SESSION_TOKEN"):
        parameters["X-Amz-Security-Token"] = session_token
    canonical_query = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted(parameters.items()))
    canonical_headers = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    canonical_path = quote(path, safe="/-_.~")
    canonical = f"{method}\n{canonical_path}\n{canonical_query}\n{canonical_headers}\n{names}\n{payload}"
    to_sign = f"AWS4-HMAC-SHA256\n{instant}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = _signing_key(environment["AWS_SECRET_ACCESS_KEY"], day, region, service)
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    return f"{host}{canonical_path}?{canonical_query}&X-Amz-Signature={signature}"


@lru_cache(maxsize=8)
def _signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = b"AWS4" + secret.encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
