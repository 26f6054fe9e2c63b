"""Presigned addresses of single objects in S3. The function's own role decides what its addresses can reach."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from artiway.platform import sigv4
from artiway.platform.clock import Clock


class ObjectUrls:
    """`environment` has the credentials and the region of the function, and the address of an emulator."""

    def __init__(self, bucket: str, clock: Clock, environment: Mapping[str, str] = os.environ) -> None:
        self._clock, self._environment = clock, environment
        self._region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION", "")
        endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
        target = urlsplit(endpoint or f"https://{bucket}.s3.{self._region}.amazonaws.com")
        self._scheme, self._host = target.scheme, target.netloc
        self._prefix = f"/{bucket}/" if endpoint else "/"

    def get(self, key: str, *, ttl_s: int) -> str:
        return self._presigned("GET", key, {}, ttl_s)

    def put(self, key: str, headers: Mapping[str, str], *, ttl_s: int) -> str:
        """S3 accepts an upload with exactly these headers."""
        return self._presigned("PUT", key, headers, ttl_s)

    def _presigned(self, method: str, key: str, headers: Mapping[str, str], ttl_s: int) -> str:
        address = sigv4.presigned(
            method,
            self._host,
            f"{self._prefix}{key}",
            service="s3",
            region=self._region,
            at=self._clock.now(),
            expires_s=ttl_s,
            environment=self._environment,
            headers=headers,
        )
        return f"{self._scheme}://{address}"
