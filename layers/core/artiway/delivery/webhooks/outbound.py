"""Posts to addresses that tenants name, never to one inside: a name is resolved once, checked, and used as it was."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from artiway.delivery.webhooks.model import Answer

ANSWER_BYTES = 1_000
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Forbidden(Exception):
    """The address is inside, or cannot be told not to be."""


class Outbound:
    """`is_private_allowed` is the operator's word, for machines without an outside."""

    def __init__(self, *, timeout_s: float, is_private_allowed: bool) -> None:
        self._timeout_s, self._is_private_allowed = timeout_s, is_private_allowed

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Never follows a redirect: that is an answer like any other, and no delivery."""
        try:
            return self._post(url, body, headers)
        except Forbidden as error:
            return Answer(None, str(error))
        except (OSError, ValueError, http.client.HTTPException) as error:
            return Answer(None, f"{type(error).__name__}: {error}"[:ANSWER_BYTES])

    def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Forbidden("not an http or https address")
        is_secure = parts.scheme == "https"
        port = parts.port or (443 if is_secure else 80)
        connection = _Pinned(parts.hostname, port, self._address(parts.hostname, port), self._timeout_s, is_secure)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request("POST", target, body=body, headers=dict(headers))
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(ANSWER_BYTES).decode("utf-8", "replace").replace("\0", ""))
        finally:
            connection.close()

    def _address(self, host: str, port: int) -> str:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]) for entry in found]
        for address in addresses:
            # One bad answer among good ones is a trick, not a choice.
            if not self._is_private_allowed and not is_public(address):
                raise Forbidden("the address is not public")
        return addresses[0]


class _Pinned(http.client.HTTPConnection):
    """Connects to the address that was checked, whatever the name says by now; TLS still asks for the name."""

    def __init__(self, host: str, port: int, address: str, timeout_s: float, is_secure: bool) -> None:
        super().__init__(host, port, timeout=timeout_s)
        self._address, self._is_secure = address, is_secure

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), self.timeout)
        self.sock = (
            ssl.create_default_context().wrap_socket(plain, server_hostname=self.host) if self._is_secure else plain
        )


def is_public(text: str) -> bool:
    """Global unicast, and not an IPv4 address inside in the dress of an IPv6 one."""
    address: Address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and int(address) >> 32 == 0x64FF9B << 64:  # NAT64
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    return address.is_global and not address.is_multicast
