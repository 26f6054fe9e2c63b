"""One request to the public address, as a client makes it."""

from __future__ import annotations

import json
import urllib.request
from http.client import HTTPException
from typing import Any

from artiway.errors import Unavailable

TIMEOUT_S = 5
RETRY_AFTER_S = 60
LARGEST_BODY = 10_000


def get_health(url: str) -> str:
    """The status that the health route answers. Raises `Unavailable` for any other answer, and for none."""
    if not url.startswith(("https://", "http://")):
        raise ValueError("the health route has an http address")
    request = urllib.request.Request(url, headers={"User-Agent": "Artiway-Check/1"})  # noqa: S310 (checked above)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            body: Any = json.loads(answer.read(LARGEST_BODY))
            return str(body["status"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        raise Unavailable(f"no health at the public address: {error}", retry_after_s=RETRY_AFTER_S) from error
