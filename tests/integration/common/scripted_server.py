"""A server on loopback that sends exactly the bytes that a test gives it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable


class Server:
    """Answers every connection in the same way, and remembers the first line of what was asked."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.asked: list[str] = []
        self.stopped = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/where?ip={{ip}}"

    def close(self) -> None:
        self.stopped.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection:
            try:
                self.asked.append(connection.recv(65_536).split(b"\r\n")[0].decode(errors="replace"))
                self._answer(connection)
            except OSError:
                pass  # the client left
