"""IAM passwords for RDS and ElastiCache: presigned queries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime

from artiway.platform import sigv4

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
    return sigv4.presigned(
        "GET",
        host,
        "/",
        service=service,
        region=region,
        at=at,
        expires_s=LIFETIME_S,
        environment=environment,
        query=query,
        payload=sigv4.EMPTY,
    )
