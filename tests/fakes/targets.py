"""Targets on this machine that answer as a test wants: slowly, in part, too much, not at all."""

from __future__ import annotations

import contextlib
import socket
import threading


class Script:
    """A server on this machine that keeps each request and plays one scene on each connection."""

    def __init__(self, scene, context=None):
        self.requests, self._scene, self._context = [], scene, context
        self._is_over = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                thread = threading.Thread(target=self._play, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _play(self, connection):
        with contextlib.suppress(OSError), connection:
            if self._context is None:
                self._scene(self, connection)
                return
            with self._context.wrap_socket(connection, server_side=True) as secured:
                self._scene(self, secured)

    def take(self, connection):
        """Read one request as far as its length says."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65_536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
        )
        while len(body) < length:
            body += connection.recv(65_536)
        self.requests.append((head.decode("latin-1").split("\r\n"), body))

    def drip(self, connection, data=b"x"):
        """One byte after another until the test is over, so that only a deadline ends the call."""
        place = 0
        while not self._is_over.wait(0.02):
            connection.sendall(data[place % len(data) :][:1])
            place += 1

    def close(self):
        self._is_over.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join()
