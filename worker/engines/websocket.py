"""The client's side of a WebSocket (RFC 6455): text and binary messages of a server, each within a bound."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import select
import socket
import ssl
import struct
import time

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
HEAD_BYTES = 16_384
MESSAGE_BYTES = 32 * 1024 * 1024
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class SocketClosed(Exception):
    """The server ended the connection, or sent what is not a WebSocket."""


class WebSocket:
    def __init__(self, connection: socket.socket, authority: str, path: str, *, deadline_s: float) -> None:
        self._connection, self._buffer = connection, bytearray()
        self._ends_at = time.monotonic() + deadline_s
        key = base64.b64encode(os.urandom(16))
        self._send(
            f"GET {path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key.decode()}\r\n\r\n".encode()
        )
        self._check_answer(base64.b64encode(hashlib.sha1(key + GUID, usedforsecurity=False).digest()))
        self._parts = bytearray()

    def receive(self, wait_s: float) -> str | None:
        """The next text message; None if none arrived in this time. Binary messages are dropped."""
        until = time.monotonic() + wait_s
        while True:
            frame = self._frame()
            if frame is None:
                left = until - time.monotonic()
                if left <= 0 or not self._fill(left):
                    return None
                continue
            code, is_last, data = frame
            if code == CLOSE:
                raise SocketClosed("the server closed the connection")
            if code == PING:
                self._send_frame(PONG, data)
            elif code in (0, TEXT, BINARY):
                if code != 0:
                    self._kind, self._parts = code, bytearray()
                self._parts += data
                if len(self._parts) > MESSAGE_BYTES:
                    raise SocketClosed("a message is too large")
                if is_last and self._kind == TEXT:
                    return self._parts.decode("utf-8", "replace")

    def close(self) -> None:
        with contextlib.suppress(OSError, SocketClosed):
            self._send_frame(CLOSE, b"")
        self._connection.close()

    def _frame(self) -> tuple[int, bool, bytes] | None:
        """One frame from the buffer; None if it is not whole yet."""
        data = self._buffer
        if len(data) < 2:
            return None
        size, at = data[1] & 0x7F, 2
        if data[1] & 0x80:
            raise SocketClosed("a server's frame is masked")
        if size >= 126:
            wide = 2 if size == 126 else 8
            if len(data) < 2 + wide:
                return None
            (size,) = struct.unpack(">H" if wide == 2 else ">Q", data[2 : 2 + wide])
            at += wide
        if size > MESSAGE_BYTES:
            raise SocketClosed("a message is too large")
        if len(data) < at + size:
            return None
        found = (data[0] & 0x0F, bool(data[0] & 0x80), bytes(data[at : at + size]))
        del data[: at + size]
        return found

    def _fill(self, wait_s: float) -> bool:
        pending = self._connection.pending() if isinstance(self._connection, ssl.SSLSocket) else 0
        if not pending and not select.select([self._connection], [], [], wait_s)[0]:
            return False
        try:
            self._connection.settimeout(max(0.1, self._ends_at - time.monotonic()))
            chunk = self._connection.recv(65_536)
        except OSError as error:
            raise SocketClosed(type(error).__name__) from error
        if not chunk:
            raise SocketClosed("the server closed the connection")
        self._buffer += chunk
        return True

    def _check_answer(self, accept: bytes) -> None:
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > HEAD_BYTES or not self._fill(max(0.0, self._ends_at - time.monotonic())):
                raise SocketClosed("no answer to the handshake")
        head, _, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        fields = {line.partition(b":")[0].strip().lower(): line.partition(b":")[2].strip() for line in lines[1:]}
        if b" 101" not in lines[0] or fields.get(b"sec-websocket-accept") != accept:
            raise SocketClosed("the server does not speak WebSocket")
        self._buffer = bytearray(rest)

    def _send_frame(self, code: int, data: bytes) -> None:
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(data[:125]))
        self._send(bytes([0x80 | code, 0x80 | len(masked)]) + mask + masked)

    def _send(self, data: bytes) -> None:
        self._connection.settimeout(max(0.1, self._ends_at - time.monotonic()))
        self._connection.sendall(data)

    _kind = TEXT
