"""IAM passwords for RDS and ElastiCache: presigned SigV4 queries, made without importing botocore."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote

LIFETIME_S = 900


def database_token(
    *, host: str, port: int, user: str, region: str, at: datetime, environment: Mapping[str, str] = os.environ
) -> str:
    """Sign in to RDS or its proxy as a database user."""
    query = {"Action": "connect", "DBUser": user}
    return _presigned("rds-db", f"{host}:{port}", query, region=region, at=at, environment=environment)


def cache_token(
    *, cache: str, user: str, region: str, at: datetime, environment: Mapping[str, str] = os.environ
) -> str:
    """Sign in to an ElastiCache replication group as a cache user."""
    query = {"Action": "connect", "User": user}
    return _presigned("elasticache", cache, query, region=region, at=at, environment=environment)


def _presigned(
    service: str, host: str, query: Mapping[str, str], *, region: str, at: datetime, environment: Mapping[str, str]
) -> str:
    """The address, without its scheme, signed with the function's own credentials."""
    day, instant = at.strftime("%Y%m%d"), at.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{day}/{region}/{service}/aws4_request"
    signed = {
        **query,
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{environment['AWS_ACCESS_KEY_ID']}/{scope}",
        "X-Amz-Date": instant,
        "X-Amz-Expires": str(LIFETIME_S),
        "X-Amz-SignedHeaders": "host",
    }
    if session_token := environment.get("AWS_SESSION_TOKEN"):
        signed["X-Amz-Security-Token"] = session_token
    canonical_query = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted(signed.items()))
    empty_body = hashlib.sha256(b"").hexdigest()
    canonical = f"GET\n/\n{canonical_query}\nhost:{host}\n\nhost\n{empty_body}"
    to_sign = f"AWS4-HMAC-SHA256\n{instant}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = b"AWS4" + environment["AWS_SECRET_ACCESS_KEY"].encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    return f"{host}/?{canonical_query}&X-Amz-Signature={signature}"
