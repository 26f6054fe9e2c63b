"""Reads and writes single objects by presigned addresses over HTTPS, piece by piece. It holds no credentials."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Callable, Mapping

import urllib3
from urllib3.exceptions import HTTPError

from worker.ports import AddressRefused, ObjectExists, ObjectMissing, ObjectTooLarge, ServiceFailed

CONNECT_S, READ_S = 5.0, 30.0
CHUNK = 64 * 1024
ERROR_BYTES = 4_096
_CODE = re.compile(rb"<Code>([A-Za-z]{1,64})</Code>")
# Codes of an address whose signer's credentials have ended before the address.
_SIGNER_ENDED = frozenset((b"ExpiredToken", b"InvalidToken", b"TokenRefreshRequired"))


class HttpObjects:
    """Safe to share between threads. `check` is called before each piece and may raise to end a transfer."""

    def __init__(self, connections: int = 32) -> None:
        timeout = urllib3.Timeout(connect=CONNECT_S, read=READ_S)  # of each piece, not of the whole
        self._pool = urllib3.PoolManager(num_pools=4, maxsize=connections, timeout=timeout, retries=False)

    def read(self, url: str, *, max_bytes: int, check: Callable[[], None]) -> bytes:
        """The whole object: fewer bytes than announced are a failure."""
        try:
            response = self._pool.request("GET", url, preload_content=False, redirect=False)
            try:
                if response.status != 200:
                    raise _refusal(response.status, response.read(ERROR_BYTES))
                return _body(response, max_bytes, check)
            except BaseException:
                response.close()
                raise
            finally:
                response.release_conn()
        except (HTTPError, OSError) as error:
            raise ServiceFailed(f"read: {type(error).__name__}") from error

    def write(self, url: str, data: bytes, headers: Mapping[str, str], *, check: Callable[[], None]) -> None:
        """S3 compares length and digest with what it received, and stores all of it or nothing."""
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        sent = {**headers, "content-length": str(len(data)), "content-md5": digest}
        try:
            # A body of bytes would have to be sent as a whole within the connection's time-out.
            response = self._pool.request("PUT", url, body=_Pieces(data, check), headers=sent, redirect=False)
        except (HTTPError, OSError) as error:
            raise ServiceFailed(f"write: {type(error).__name__}") from error
        if response.status not in (200, 204):
            raise _refusal(response.status, response.data)


class _Pieces(io.BytesIO):
    def __init__(self, data: bytes, check: Callable[[], None]) -> None:
        super().__init__(data)
        self._check = check

    def read(self, size: int | None = -1, /) -> bytes:
        self._check()
        return super().read(CHUNK if size is None or size < 0 else size)


def _body(response: urllib3.BaseHTTPResponse, max_bytes: int, check: Callable[[], None]) -> bytes:
    announced = response.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > max_bytes:
        raise ObjectTooLarge(f"the object has {announced} bytes")
    found = bytearray()
    for piece in response.stream(CHUNK, decode_content=False):
        check()
        found += piece
        if len(found) > max_bytes:
            raise ObjectTooLarge(f"the object has more than {max_bytes} bytes")
    return bytes(found)


def _refusal(status: int, body: bytes) -> Exception:
    """The exception for an answer of S3. It names no address: an address is a permission."""
    found = _CODE.search(body)
    code = found[1] if found else b""
    reason = f"{status} {code.decode()}".strip()
    if status == 403 or code in _SIGNER_ENDED:
        return AddressRefused(reason)
    if status == 404:
        return ObjectMissing(reason)
    if status == 412:
        return ObjectExists(reason)
    return ServiceFailed(reason)
