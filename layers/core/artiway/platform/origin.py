"""Proof that a request came through CloudFront, and so past the web ACL: a header whose value only the stack knows.

The functions have SHA-256 hashes of the accepted values, not the values: a hash needs no call to Secrets Manager and is
no secret, because the values are long and random.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping

from artiway.errors import NotAllowed

HEADER = "x-origin-verify"
# Set by CloudFront's function, and so believed only beside the proof.
ADDRESS_HEADER, HOST_HEADER = "true-client-ip", "x-viewer-host"
OFF = "off"
# Two values are accepted while one replaces the other.
SLOTS = ("first", "second")
SHORTEST = 32
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:\d{1,5})?")


class DirectRequest(NotAllowed):
    """A request that did not come through CloudFront."""

    code = "EDGE_403_DIRECT"

    def __init__(self) -> None:
        super().__init__("use the platform's public address")


class Origin:
    """`hashes` is a list separated by commas, or "off" in a stack without a distribution. An empty one accepts none."""

    def __init__(self, hashes: str) -> None:
        self.is_checked = hashes != OFF
        self._hashes = [one.encode() for one in hashes.split(",") if one] if self.is_checked else []

    def check(self, headers: Mapping[str, str]) -> None:
        """Raises DirectRequest. The names of WebSocket headers are spelled as they were sent."""
        if not self.is_checked:
            return
        proof = _header(headers, HEADER).encode("utf-8", "surrogatepass")
        found = hashlib.sha256(proof).hexdigest().encode()
        if not proof or not any(hmac.compare_digest(found, one) for one in self._hashes):
            raise DirectRequest

    def viewer_address(self, headers: Mapping[str, str]) -> str:
        """The viewer's address of a checked request, or nothing."""
        return _header(headers, ADDRESS_HEADER) if self.is_checked else ""

    def viewer_host(self, headers: Mapping[str, str]) -> str:
        """The host that the viewer of a checked request called, or nothing."""
        host = _header(headers, HOST_HEADER).lower() if self.is_checked else ""
        return host if _HOST.fullmatch(host) else ""


def hashes_of(secret: str) -> str:
    """The hashes of a secret `{"first": …, "second": …}`. A value that is empty or missing is not accepted."""
    try:
        slots = json.loads(secret)
        values = [slots[slot] for slot in SLOTS if slots.get(slot)]
        is_known = slots.keys() <= set(SLOTS)
    except (ValueError, TypeError, AttributeError):
        values, is_known = [], False
    if not values or not is_known or not all(isinstance(one, str) and len(one) >= SHORTEST for one in values):
        raise ValueError(f"the origin secret needs {' or '.join(SLOTS)}, of {SHORTEST} characters or more")
    return ",".join(hashlib.sha256(one.encode()).hexdigest() for one in values)


def _header(headers: Mapping[str, str], name: str) -> str:
    return next((str(value) for key, value in headers.items() if key.lower() == name), "")
