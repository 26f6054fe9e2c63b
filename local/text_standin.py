"""A stand-in for providers of texts. The model that is asked for names the scene: a healthy answer, or a fault.

It writes bytes to sockets, so that it can cut, delay and break an answer where an HTTP library would not.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

REQUEST_BYTES = 40_000_000
REQUEST_S = 30
CONTEXT_TOKENS = 8_192
# "é" and the emoji have two and four bytes, "服" three.
WORDS = ("A ", "light ", "cotton ", "dress, ", "café ", "blue, ", "服装 ", "🧵 ", "for ", "summer. ")
# A model that takes the scene from the prompt, so that a client of the whole platform can ask for one.
PROMPTED = "prompted"
_PROMPTED = re.compile(r"scene=([a-z0-9_-]+)")
_SERVED = re.compile(r"steady-(\d+)")
Json = dict[str, Any]


def words(count: int) -> list[str]:
    """The text of a healthy answer, one word for a token."""
    return [WORDS[place % len(WORDS)] for place in range(count)]


class ClientGone(Exception):
    """The client closed the connection, or the stand-in stops."""


@dataclass
class Request:
    path: str
    headers: Mapping[str, str]
    body: Json
    received_at: float = field(default_factory=time.monotonic)

    @property
    def tokens(self) -> int:
        return int(self.body.get("max_tokens", 8))

    @property
    def is_streamed(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def usage(self) -> Json:
        read = sum(len(str(message["content"]).split()) for message in self.body["messages"])
        return {"prompt_tokens": read, "completion_tokens": self.tokens, "total_tokens": read + self.tokens}


class Line:
    """The server's side of one connection."""

    def __init__(self, connection: socket.socket, request: Request, is_over: threading.Event) -> None:
        self._connection, self.request, self._is_over = connection, request, is_over

    def raw(self, data: bytes) -> None:
        try:
            self._connection.sendall(data)
        except OSError as error:
            raise ClientGone from error

    def head(self, status: str = "200 OK", kind: str = "text/event-stream; charset=utf-8", extra: str = "") -> None:
        """The body ends with the connection, so that each byte after it is the scene's."""
        self.raw(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{extra}Connection: close\r\n\r\n".encode())

    def event(self, content: object) -> None:
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        self.raw(f"data: {text}\n\n".encode())

    def delta(self, text: str | None, **more: Any) -> None:
        self.event(chunk({"content": text, **more}))

    def finish(self, reason: str = "stop", *, has_usage: bool = True) -> None:
        self.event(chunk({}, reason))
        if has_usage:
            self.event({"choices": [], "usage": self.request.usage})
        self.event("[DONE]")

    def answer(self, status: str, body: object, extra: str = "") -> None:
        text = json.dumps(body).encode()
        self.head(status, "application/json", f"Content-Length: {len(text)}\r\n{extra}")
        self.raw(text)

    def pause(self, seconds: float) -> None:
        """Wait, and notice a client that leaves meanwhile."""
        until = time.monotonic() + seconds
        while not self._is_over.is_set() and (left := until - time.monotonic()) > 0:
            self._connection.settimeout(min(left, 0.05))
            with contextlib.suppress(TimeoutError):
                try:
                    if not self._connection.recv(4_096):
                        raise ClientGone
                except TimeoutError:
                    raise
                except OSError as error:
                    raise ClientGone from error
        self._connection.settimeout(REQUEST_S)
        if self._is_over.is_set():
            raise ClientGone

    def for_ever(self) -> Iterator[int]:
        count = 0
        while not self._is_over.is_set():
            yield count
            count += 1
        raise ClientGone

    def reset(self) -> None:
        """Close with RST and not FIN, as a server that was killed."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise ClientGone


def chunk(delta: Json, reason: str | None = None, index: int = 0) -> Json:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "choices": [{"index": index, "delta": delta, "finish_reason": reason}],
    }


def completion(text: str | None, usage: Json | None, reason: str = "stop", **more: Any) -> Json:
    message = {"role": "assistant", "content": text, **more}
    answer: Json = {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}
    return answer | ({"usage": usage} if usage else {})


Scene = Callable[[Line], None]
SCENES: dict[str, Scene] = {}


def scene(function: Scene) -> Scene:
    SCENES[function.__name__] = function
    return function


# --- healthy answers


@scene
def healthy(line: Line) -> None:
    """As a provider should answer: streamed or whole, JSON where a schema asks for it."""
    request = line.request
    if request.usage["prompt_tokens"] > CONTEXT_TOKENS:
        line.answer("400 Bad Request", {"error": {"type": "exceed_context_size_error", "code": 400, "message": "no"}})
        return
    schema = request.body.get("response_format", {}).get("json_schema", {}).get("schema")
    pieces = words(request.tokens) if schema is None else list(json.dumps(_example(schema), ensure_ascii=False))
    if not request.is_streamed:
        line.answer("200 OK", completion("".join(pieces), request.usage))
        return
    line.head()
    line.event(chunk({"role": "assistant", "content": ""}))
    for piece in pieces:
        line.delta(piece)
    line.finish("length" if schema is None else "stop")


def _example(schema: Json) -> Any:
    """A small value of a JSON schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = str(schema.get("type"))
    if kind == "object":
        return {name: _example(inner) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return [_example(schema.get("items", {}))] * max(1, schema.get("minItems", 1))
    return {"integer": schema.get("minimum", 1), "number": 1.5, "boolean": True, "null": None}.get(kind, "Cotton dress")


def steady(line: Line, per_second: int) -> None:
    """So many words a second, by the clock and not by pauses: a slow reader does not stretch the text."""
    if not line.request.is_streamed:
        line.pause(line.request.tokens / per_second)
        healthy(line)
        return
    line.head()
    for place, word in enumerate(words(line.request.tokens)):
        due_at = line.request.received_at + (place + 1) / per_second
        line.pause(max(0.0, due_at - time.monotonic()))
        line.delta(word)
    line.finish("length")


@scene
def utf8_split(line: Line) -> None:
    """Every byte is a packet of its own."""
    line.head()
    for word in (*words(line.request.tokens),):
        for byte in f"data: {json.dumps(chunk({'content': word}), ensure_ascii=False)}\n\n".encode():
            line.raw(bytes([byte]))
    line.finish()


@scene
def carriage_returns(line: Line) -> None:
    line.head()
    for place, word in enumerate(words(line.request.tokens)):
        end = ("\r\n", "\r")[place % 2]
        text = f"data: {json.dumps(chunk({'content': word}))}{end}"
        line.raw(text.encode())
        line.raw(end.encode())
    line.finish()


@scene
def chunked(line: Line) -> None:
    """Chunks of HTTP that end inside events and characters."""
    line.head(extra="Transfer-Encoding: chunked\r\n")
    body = b"".join(
        f"data: {json.dumps(chunk({'content': word}), ensure_ascii=False)}\n\n".encode()
        for word in words(line.request.tokens)
    )
    body += f"data: {json.dumps(chunk({}, 'stop'))}\n\ndata: [DONE]\n\n".encode()
    for begin in range(0, len(body), 7):
        part = body[begin : begin + 7]
        line.raw(f"{len(part):x};note=1\r\n".encode() + part + b"\r\n")
    line.raw(b"0\r\nX-Trailer: 1\r\n\r\n")


@scene
def multi_line_data(line: Line) -> None:
    line.head()
    for word in words(line.request.tokens):
        text = json.dumps(chunk({"content": word}), indent=1)
        line.raw(("".join(f"data:{part}\n" for part in text.splitlines()) + "\n").encode())
    line.finish()


@scene
def comments(line: Line) -> None:
    line.head()
    line.raw("\ufeff: first\n\n".encode())
    for word in words(line.request.tokens):
        line.raw(b": keep-alive\n\n\n\nid: 7\nretry: 100\nunknown\n")
        line.delta(word)
    line.finish()


@scene
def no_usage(line: Line) -> None:
    line.head()
    for word in words(line.request.tokens):
        line.delta(word)
    line.finish(has_usage=False)


@scene
def bad_usage(line: Line) -> None:
    line.head()
    for word in words(line.request.tokens):
        line.delta(word)
    line.event(chunk({}, "stop") | {"usage": {"prompt_tokens": -1, "completion_tokens": "many"}})
    line.event("[DONE]")


@scene
def usage_in_every_event(line: Line) -> None:
    line.head()
    for place, word in enumerate(words(line.request.tokens), 1):
        usage = line.request.usage | {"completion_tokens": place}
        line.event(chunk({"content": word}) | {"usage": usage})
    line.finish(has_usage=False)


@scene
def null_content(line: Line) -> None:
    line.head()
    line.event(chunk({"role": "assistant", "content": None}))
    line.event({"choices": None})
    line.event({"choices": [{"delta": None, "finish_reason": None}]})
    for word in words(line.request.tokens):
        line.delta(None)
        line.delta(word)
    line.finish()


@scene
def thoughts(line: Line) -> None:
    line.head()
    for word in ("I ", "think "):
        line.event(chunk({"reasoning_content": word, "content": None}))
    for word in words(line.request.tokens):
        line.delta(word)
    line.finish()


@scene
def two_deltas(line: Line) -> None:
    """Two events in a packet, and two choices in an event."""
    line.head()
    pieces = words(line.request.tokens)
    for first, second in zip(pieces[::2], pieces[1::2], strict=False):
        both = chunk({"content": first})
        both["choices"] += chunk({"content": second})["choices"]
        empty = json.dumps(chunk({}))
        line.raw(f"data: {json.dumps(both)}\n\ndata: {empty}\n\n".encode())
    if len(pieces) % 2:
        line.delta(pieces[-1])
    line.finish()


@scene
def other_choices(line: Line) -> None:
    line.head()
    for word in words(line.request.tokens):
        line.event(chunk({"content": "another answer"}, index=1))
        line.delta(word)
    line.finish()


@scene
def parts(line: Line) -> None:
    line.head()
    for word in words(line.request.tokens):
        line.event(chunk({"content": [{"type": "text", "text": word}]}))
    line.finish()


@scene
def duplicate_finish(line: Line) -> None:
    line.head()
    for word in words(line.request.tokens):
        line.delta(word)
    line.event(chunk({}, "stop"))
    line.event(chunk({"content": "once more"}, "length"))
    line.finish("length")


@scene
def no_end_mark(line: Line) -> None:
    line.head()
    for word in words(line.request.tokens):
        line.delta(word)
    line.event(chunk({}, "stop") | {"usage": line.request.usage})


@scene
def no_finish_reason(line: Line) -> None:
    line.head()
    for word in words(line.request.tokens):
        line.delta(word)
    line.event("[DONE]")


@scene
def no_last_line(line: Line) -> None:
    line.head()
    for word in words(line.request.tokens):
        line.delta(word)
    line.event(chunk({}, "stop"))
    line.raw(b"data: [DONE]")


@scene
def surrogates(line: Line) -> None:
    """A character beyond 16 bits as two escapes in two events, a half without its other, and a NUL."""
    line.head()
    line.raw(b'data: {"choices": [{"delta": {"content": "a\\ud83e"}}]}\n\n')
    line.raw(b'data: {"choices": [{"delta": {"content": "\\uddf5b"}}]}\n\n')
    line.raw(b'data: {"choices": [{"delta": {"content": "c\\ud83e"}}]}\n\n')
    line.raw(b'data: {"choices": [{"delta": {"content": "d\\u0000e"}}]}\n\n')
    line.raw(b'data: {"choices": [{"delta": {"content": "f\\ud83e"}}]}\n\n')
    line.finish()


@scene
def json_for_stream(line: Line) -> None:
    """A whole answer although a stream was asked for, after empty lines while the provider worked."""
    line.head(kind="application/json")
    line.raw(b"\n\n  \n")
    line.raw(json.dumps(completion("".join(words(line.request.tokens)), line.request.usage)).encode())


@scene
def filtered(line: Line) -> None:
    line.head()
    for word in words(line.request.tokens):
        line.delta(word)
    line.finish("content_filter")


@scene
def usage_never_comes(line: Line) -> None:
    line.head()
    for word in words(line.request.tokens):
        line.delta(word)
    line.event(chunk({}, "stop"))
    line.pause(3_600)


@scene
def error_after_finish(line: Line) -> None:
    line.head()
    for word in words(line.request.tokens):
        line.delta(word)
    line.event(chunk({}, "stop"))
    line.event({"error": {"type": "server_error"}})


@scene
def overlong(line: Line) -> None:
    """The provider ignores max_tokens."""
    line.head()
    for _ in line.for_ever():
        line.delta("word " * 20)


# --- faults: status


def _status(status: str, body: object, extra: str = "") -> Scene:
    def answer(line: Line) -> None:
        line.answer(status, body, extra)

    return answer


def _error(kind: str, message: str = "no") -> Json:
    return {"error": {"message": message, "type": kind, "code": None}}


SCENES |= {
    "status_400": _status("400 Bad Request", _error("invalid_request_error")),
    "status_402": _status("402 Payment Required", _error("insufficient_balance")),
    "status_403": _status("403 Forbidden", _error("permission_denied")),
    "status_404": _status("404 Not Found", _error("model_not_found")),
    "status_413": _status("413 Content Too Large", "too large"),
    "status_429": _status("429 Too Many Requests", _error("rate_limit_exceeded"), "Retry-After: 7\r\n"),
    "status_429_date": _status(
        "429 Too Many Requests", _error("requests"), "Retry-After: Thu, 01 Jan 2026 00:00:30 GMT\r\n"
    ),
    "status_429_bare": _status("429 Too Many Requests", [], "Retry-After: soon\r\n"),
    "status_429_quota": _status("429 Too Many Requests", _error("insufficient_quota")),
    "status_500": _status("500 Internal Server Error", _error("server_error")),
    "status_502": _status("502 Bad Gateway", "<html>"),
    "status_503": _status("503 Service Unavailable", _error("unavailable_error"), "Retry-After: 2\r\n"),
    "status_504": _status("504 Gateway Timeout", {}),
    "status_529": _status("529 Overloaded", _error("overloaded_error")),
    "redirect": _status("302 Found", {}, "Location: http://169.254.169.254/latest/meta-data\r\n"),
}


@scene
def status_401(line: Line) -> None:
    """As a real provider it quotes the key in its message."""
    key = line.request.headers.get("authorization", "").removeprefix("Bearer ")
    line.answer("401 Unauthorized", _error("invalid_api_key", f"Incorrect API key provided: {key}"))


@scene
def endless_error(line: Line) -> None:
    line.head("500 Internal Server Error", "text/html")
    for _ in line.for_ever():
        line.raw(b"<p>error</p>" * 1_000)


# --- faults: inside an answer of status 200


@scene
def error_before_text(line: Line) -> None:
    line.head()
    line.event({"error": {"code": 429, "type": "rate_limit_error", "message": "slow down"}})


@scene
def error_after_text(line: Line) -> None:
    line.head()
    for word in words(3):
        line.delta(word)
    line.raw(b'event: error\ndata: {"error": {"type": "server_error", "message": "the node was lost"}}\n\n')


@scene
def error_in_json(line: Line) -> None:
    line.answer("200 OK", _error("server_error"))


@scene
def declined(line: Line) -> None:
    line.head()
    line.event(chunk({"refusal": "I cannot help with that."}))
    line.finish()


@scene
def half_json(line: Line) -> None:
    line.head()
    line.delta("A ")
    line.event('{"choices": [{"delta": {"content": "light')


@scene
def half_json_at_end(line: Line) -> None:
    line.head()
    line.delta("A ")
    line.raw(b'data: {"choices": [{"delta": {"content": "light')


@scene
def half_whole_json(line: Line) -> None:
    line.head(kind="application/json")
    line.raw(b'{"choices": [{"message": {"content": "A light')


@scene
def broken_utf8(line: Line) -> None:
    line.head()
    line.delta("A ")
    line.raw(b'data: {"choices": [{"delta": {"content": "caf\xe9 \xff"}}]}\n\n')


@scene
def broken_utf8_whole(line: Line) -> None:
    line.head(kind="application/json")
    line.raw(b'{"choices": [{"message": {"content": "caf\xe9"}}]}')


@scene
def html_page(line: Line) -> None:
    line.head(kind="text/html")
    line.raw(b"<html>Please log in</html>")


@scene
def empty_answer(line: Line) -> None:
    line.head(extra="Content-Length: 0\r\n")


@scene
def wrong_shapes(line: Line) -> None:
    line.head()
    line.event([1, 2, 3])


@scene
def wrong_choices(line: Line) -> None:
    line.head()
    line.event({"choices": {"delta": 5}})


@scene
def no_choices(line: Line) -> None:
    line.answer("200 OK", {"id": "x", "choices": []})


@scene
def deep_json(line: Line) -> None:
    line.head()
    line.event("[" * 200_000)


@scene
def endless_line(line: Line) -> None:
    line.head()
    line.raw(b"data: ")
    for _ in line.for_ever():
        line.raw(b"a" * 65_536)


# --- faults: the connection


@scene
def closed_before_answer(line: Line) -> None:
    """The connection ends after the request."""


@scene
def reset_before_answer(line: Line) -> None:
    line.reset()


@scene
def closed_in_head(line: Line) -> None:
    line.raw(b"HTTP/1.1 200 OK\r\nContent-Ty")


@scene
def not_http(line: Line) -> None:
    line.raw(b"SSH-2.0-OpenSSH_9.9\r\n")


@scene
def endless_head(line: Line) -> None:
    line.raw(b"HTTP/1.1 200 OK\r\n")
    for place in line.for_ever():
        line.raw(f"X-{place}: {'a' * 100}\r\n".encode())


@scene
def closed_in_text(line: Line) -> None:
    line.head()
    for word in words(3):
        line.delta(word)


@scene
def reset_in_text(line: Line) -> None:
    line.head()
    for word in words(3):
        line.delta(word)
    line.pause(0.1)
    line.reset()


@scene
def closed_in_chunk(line: Line) -> None:
    line.head(extra="Transfer-Encoding: chunked\r\n")
    text = f"data: {json.dumps(chunk({'content': 'A '}))}\n\n".encode()
    line.raw(f"{len(text):x}\r\n".encode() + text + b"\r\nff\r\ndata: {")


# --- faults: time


@scene
def silent(line: Line) -> None:
    line.pause(3_600)


@scene
def dripping_head(line: Line) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nX: " + b"a" * 30_000:
        line.raw(bytes([byte]))
        line.pause(0.02)


@scene
def endless_keep_alives(line: Line) -> None:
    line.head()
    for _ in line.for_ever():
        line.raw(b": keep-alive\n\n")
        line.pause(0.02)


@scene
def endless_empty_deltas(line: Line) -> None:
    line.head()
    for _ in line.for_ever():
        line.delta("")
        line.pause(0.02)


@scene
def stall_after_text(line: Line) -> None:
    line.head()
    for word in words(3):
        line.delta(word)
    line.pause(3_600)


@scene
def keep_alives_after_text(line: Line) -> None:
    line.head()
    for word in words(3):
        line.delta(word)
    for _ in line.for_ever():
        line.raw(b": keep-alive\n\n")
        line.pause(0.02)


@scene
def endless_text(line: Line) -> None:
    """A word now and then, for ever."""
    line.head()
    for _ in line.for_ever():
        line.delta("a ")
        line.pause(0.02)


class TextStandin:
    """Listens on 127.0.0.1. `requests` are those received, `left_early` the scenes whose client closed first.

    `most_at_once` is how many scenes were played at the same time; a test sets it to 0.
    """

    def __init__(self, port: int = 0, scenes: Mapping[str, Scene] = SCENES) -> None:
        self._scenes = scenes
        self._is_over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self._listener.settimeout(0.1)
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[Request] = []
        self.at_once = self.most_at_once = 0
        self.left_early: list[str] = []
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, name="standin", daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._acceptor.join()
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def wait_until_left(self, model: str, timeout_s: float = 30) -> bool:
        """Whether the client of a scene has closed its connection before the scene's end."""
        with self._changed:
            return self._changed.wait_for(lambda: model in self.left_early, timeout_s)

    def _count(self, change: int) -> None:
        with self._changed:
            self.at_once += change
            self.most_at_once = max(self.most_at_once, self.at_once)

    def _accept(self) -> None:
        while not self._is_over.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            thread = threading.Thread(target=self._serve, args=[connection], name="scene", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.closing(connection), contextlib.suppress(OSError, ValueError, KeyError):
            connection.settimeout(REQUEST_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request = _read(connection)
            model = _scene_of(request)
            self.requests.append(request)
            line = Line(connection, request, self._is_over)
            self._count(1)
            try:
                if served := _SERVED.fullmatch(model):
                    steady(line, int(served[1]))
                else:
                    self._scenes.get(model, SCENES["status_404"])(line)
            except ClientGone:
                with self._changed:
                    self.left_early.append(model)
                    self._changed.notify_all()
                return
            finally:
                self._count(-1)
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):  # a close with unread bytes would be a reset
                    pass


def _scene_of(request: Request) -> str:
    model = str(request.body["model"])
    if model != PROMPTED:
        return model
    found = _PROMPTED.search(json.dumps(request.body["messages"]))
    return found[1] if found else "healthy"


def _read(connection: socket.socket) -> Request:
    data = bytearray()
    while b"\r\n\r\n" not in data:
        data += connection.recv(65_536) or _raise()
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines[1:])
    headers = {name.lower(): value for name, value in fields.items()}
    length = int(headers.get("content-length", "0"))
    if length > REQUEST_BYTES:
        raise ValueError("the request is too large")
    rest = bytearray(body)
    while len(rest) < length:
        rest += connection.recv(65_536) or _raise()
    return Request(lines[0].split(" ")[1], headers, json.loads(bytes(rest)))


def _raise() -> bytes:
    raise ValueError("the client closed inside its request")
