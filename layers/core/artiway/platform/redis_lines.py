"""Single commands of Redis for paths that run for every token: about a third of the CPU of redis-py's client.

redis-py takes a connection from its pool, checks it and gives it back with each command. Here a connection stays with
the calls that use it, and the command is packed in one pass. Connections, credentials and the breaker are the client's.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis import Redis

Part = str | int


class Lines:
    """Connections of the client's pool that are kept. A call has one for itself, so threads may share this object."""

    def __init__(self, redis: Redis) -> None:
        self._pool = redis.connection_pool
        self._resting: Callable[[], AbstractContextManager[None]] = getattr(redis, "resting", contextlib.nullcontext)
        self._free: list[Any] = []  # redis-py's types of connections and pools do not fit together

    def call(self, *parts: Part) -> Any:
        """The answer of one command. One that may have run is repeated if its connection was lost: see `Script`."""
        from redis.exceptions import ConnectionError  # noqa: A004

        with self._resting():
            is_kept = bool(self._free)
            try:
                return self._call(parts)
            except ConnectionError:
                if not is_kept:
                    raise
            self._drop()  # a connection that died idle; the others are as old
            return self._call(parts)

    def script(self, package: str, verb: str) -> Script:
        return Script(self, (files(package) / f"{verb}.lua").read_text("utf-8"))

    def _call(self, parts: tuple[Part, ...]) -> Any:
        from redis.exceptions import ResponseError

        try:
            connection = self._free.pop()
        except IndexError:
            connection = self._pool.get_connection()
        try:
            connection.send_packed_command(_packed(parts))
            answer = connection.read_response()
        except ResponseError:  # an answer as any other: the connection can be used
            self._free.append(connection)
            raise
        except BaseException:
            connection.disconnect()
            self._pool.release(connection)
            raise
        self._free.append(connection)
        return answer

    def _drop(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                connection = self._free.pop()
                connection.disconnect()
                self._pool.release(connection)


class Script:
    """A Lua script that may run twice with the same arguments: a call whose answer was lost is repeated."""

    def __init__(self, lines: Lines, text: str) -> None:
        self._lines, self._text = lines, text
        self._sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def __call__(self, keys: list[str], arguments: list[Part]) -> Any:
        from redis.exceptions import NoScriptError

        try:
            return self._lines.call("EVALSHA", self._sha, len(keys), *keys, *arguments)
        except NoScriptError:  # a server that was started again, or a replica that took over
            return self._lines.call("EVAL", self._text, len(keys), *keys, *arguments)


def _packed(parts: tuple[Part, ...]) -> list[bytes]:
    """The command in RESP, in one piece."""
    pieces = [b"*%d\r\n" % len(parts)]
    for part in parts:
        data = part.encode() if isinstance(part, str) else b"%d" % part
        pieces.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return [b"".join(pieces)]
