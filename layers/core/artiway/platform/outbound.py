"""The one HTTP client for addresses that tenants name: webhooks, jobs, language models, image engines.

It calls public addresses only, unless the operator's list names the target. Each call has one deadline for everything.
Standard library only and no import of ours: the worker's image copies this single file (worker/README.md).
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import queue
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]
Dial = Callable[[str, int, float], socket.socket]
Targets = frozenset[tuple[str, int]]

# Web ports and the range in which web servers are run beside them. Mail, SSH, databases and caches are outside it.
DEFAULT_PORTS = "80,443,8000-8999"
URL_CHARACTERS = 8_192
DEADLINE_LIMIT_S = 3_600  # longer than any answer of a language model
HEADER_BYTES = 32_768  # of an answer: status line, header, interim answers and trailer together
HEADER_FIELDS = 100
ANSWER_BYTES = 1_000_000
RECEIVE_BYTES = 65_536
# A name server that does not answer keeps its thread after the deadline of the call, so their number is bounded.
LOOKUPS = 64

# Only 2000::/3 is assigned for global unicast. NAT64, mapped, compatible, site-local and segment routing lie outside.
GLOBAL_IPV6 = ipaddress.IPv6Network("2000::/3")
SPECIAL_IPV6 = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID, AMT and others
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address inside
        "2620:4f:8000::/48",  # AS112, sinks of reverse lookups
        "3ffe::/16",  # 6bone, given back
        "3fff::/20",  # documentation
    )
)
SPECIAL_IPV4 = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier NAT; some clouds keep their metadata here
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's own services for a machine
        "169.254.0.0/16",  # link-local: metadata of machines and tasks
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
# Names that stand for this machine or its network wherever they are resolved.
LOCAL_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa", ".onion")

_URL = re.compile(r"(https?)://([^/?#]*)(/[^?#]*)?(\?[^#]*)?(?:#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_METHOD = re.compile(r"[A-Z]{1,20}")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: .*)?")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
# The client writes these itself; a caller's would contradict the frame of the request, or change whom it is for.
_OWN_HEADERS = frozenset(
    ("host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "keep-alive")
)
_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


class OutboundError(Exception):
    """A call without an answer. `reason` may be shown to the tenant; it names no address."""

    is_retryable = True

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TargetRefused(OutboundError):
    """The URL names a place that is not called. Nothing was sent."""

    is_retryable = False


class RequestRefused(OutboundError):
    """A method or header that cannot be sent. Nothing was sent."""

    is_retryable = False


class DeadlineExceeded(OutboundError):
    """The deadline passed before the answer was complete. The target may have acted on the request."""


class ConnectTimedOut(DeadlineExceeded):
    """The time to connect passed. The target has not seen the request."""


class ConnectFailed(OutboundError):
    """No address was found, or no connection was made. The target has not seen the request."""


class BadAnswer(OutboundError):
    """The target's answer broke off or is not HTTP. The target may have acted on the request."""


class AnswerTooLarge(BadAnswer):
    """More bytes than the caller takes; the next answer would be as large."""

    is_retryable = False


def is_public(text: str) -> bool:
    """Whether an address is allowed: global unicast, outside every special block, and no IPv4 address inside IPv6."""
    try:
        address: Address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not any(address in block for block in SPECIAL_IPV4)
    if address.scope_id is not None or address not in GLOBAL_IPV6:
        return False
    is_isatap = (int(address) >> 32) & 0xFDFFFFFF == 0x00005EFE
    return not is_isatap and not any(address in block for block in SPECIAL_IPV6)


def parse_targets(text: str) -> Targets:
    """The operator's list `host:port,host:port`. An IPv6 address stands in brackets."""
    targets = set()
    for entry in filter(None, (part.strip() for part in text.split(","))):
        found = _AUTHORITY.fullmatch(entry)
        if found is None or found[2] is None or not 1 <= int(found[2]) <= 65_535:
            raise ValueError(f"{entry!r} is not host:port")
        try:
            host, _ = _parse_host(found[1])
        except TargetRefused as error:
            raise ValueError(f"{entry!r}: {error.reason}") from error
        targets.add((host, int(found[2])))
    return frozenset(targets)


def parse_ports(text: str) -> frozenset[int]:
    """`80,443,8000-8999` as a set."""
    ports: set[int] = set()
    for entry in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", entry)
        if found is None or not 1 <= int(found[1]) <= int(found[2] or found[1]) <= 65_535:
            raise ValueError(f"{entry!r} is neither a port nor a range of ports")
        ports |= set(range(int(found[1]), int(found[2] or found[1]) + 1))
    return frozenset(ports)


def _parse_host(text: str) -> tuple[str, Address | None]:
    """The host in its one spelling, and the address where it is one."""
    host = text.lower()
    if host.startswith("["):
        try:
            ipv6 = ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            raise TargetRefused("the IPv6 address is not valid") from None
        return f"[{ipv6}]", ipv6
    labels = host.split(".")
    # A resolver reads 2130706433, 127.1, 0177.0.0.1 and 0x7f.1 as addresses, and each in its own way.
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return host, ipaddress.IPv4Address(host)
        except ValueError:
            raise TargetRefused("an IPv4 address is four decimal numbers") from None
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise TargetRefused("the host name is not valid")
    return host, None


def system_resolver(host: str, port: int) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def dial(address: str, port: int, timeout_s: float) -> socket.socket:
    """Connect to an address, never to a name. No proxy of the environment is asked."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.settimeout(timeout_s)
        made.connect((address, port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        made.close()
        raise
    return made


@functools.cache
def tls_context() -> ssl.SSLContext:
    """One for the process: loading the certificates of all authorities takes longer than most calls."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


@dataclass(frozen=True)
class Target:
    """A URL that may be called, if the addresses of its name are public."""

    is_secure: bool
    host: str
    port: int
    path: str
    address: str | None  # where the host is an address
    is_allowed: bool  # on the operator's list: its address need not be public

    @property
    def authority(self) -> str:
        return self.host if self.port == (443 if self.is_secure else 80) else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Answer:
    """A whole answer. Header names are in lower case. A redirect is an answer as any other."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Deadline:
    def __init__(self, seconds: float) -> None:
        if not 0 < seconds <= DEADLINE_LIMIT_S:
            raise ValueError(f"a deadline is between 0 and {DEADLINE_LIMIT_S} seconds, not {seconds}")
        self._ends_at = self._phase_ends_at = time.monotonic() + seconds

    def limit(self, seconds: float | None) -> None:
        """End no later than in so many seconds, until the next call. None: with the deadline alone."""
        self._phase_ends_at = self._ends_at
        if seconds is not None:
            self._phase_ends_at = min(self._ends_at, time.monotonic() + seconds)

    def left(self) -> float:
        left = self._phase_ends_at - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded("no complete answer before the deadline")
        return left

    @staticmethod
    @contextlib.contextmanager
    def translated(kind: type[OutboundError], what: str) -> Iterator[None]:
        """The errors of a system call whose time-out was `left`."""
        try:
            yield
        except TimeoutError as error:
            raise DeadlineExceeded(f"{what} before the deadline") from error
        except ssl.SSLCertVerificationError as error:
            raise kind(f"{what}: the certificate is not valid for this host") from error
        except (OSError, ValueError) as error:
            raise kind(f"{what}: {type(error).__name__}") from error


class _Nothing(Exception):
    """Nothing arrived while the caller waited. The connection is as it was."""


class _Wire:
    """A connection on which every system call ends with the deadline, and lines are bounded."""

    def __init__(self, connection: socket.socket, deadline: _Deadline) -> None:
        self._connection, self._deadline = connection, deadline
        self._buffer = bytearray()
        self._header_bytes = 0
        self._timeout_s: float | None = None

    def send(self, data: bytes) -> None:
        # `sendall` of a TLS socket starts its time-out anew with every record.
        rest = memoryview(data)
        while rest:
            self._set_timeout(self._deadline.left())
            rest = rest[self._connection.send(rest) :]

    def some(self, limit: int) -> bytes:
        """What is there, at most `limit` bytes; empty at the end of the connection."""
        self._deadline.left()  # also for what has arrived: a caller that is slow has used up its time
        if not self._buffer:
            self._receive()
        taken = bytes(self._buffer[:limit])
        del self._buffer[:limit]
        return taken

    def wait(self, seconds: float, *, for_line: bool = False) -> bool:
        """Receive once. False: within so many seconds nothing arrived, or no end of a line."""
        if self._is_ready(for_line):
            return True
        try:
            is_open = self._receive(seconds)
        except _Nothing:
            return False
        return not is_open or self._is_ready(for_line)

    def _is_ready(self, for_line: bool) -> bool:
        return b"\n" in self._buffer or len(self._buffer) > HEADER_BYTES if for_line else bool(self._buffer)

    def line(self) -> bytes:
        """One line of the header, the trailer or a chunk's size, without its end."""
        begin = 0
        while (end := self._buffer.find(b"\n", begin)) < 0:
            begin = len(self._buffer)
            if self._header_bytes + begin > HEADER_BYTES:
                break
            if not self._receive():
                raise BadAnswer("the connection was closed inside the answer")
        if end < 0 or self._header_bytes + end > HEADER_BYTES:
            raise BadAnswer(f"the header is larger than {HEADER_BYTES} bytes")
        taken = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._header_bytes += end + 1
        return taken.removesuffix(b"\r")

    def chunk_line(self) -> bytes:
        """As `line`, and each chunk has the bound of a header for itself."""
        self._header_bytes = 0
        return self.line()

    def _receive(self, seconds: float | None = None) -> bool:
        """Whether the connection is open. With `seconds` it raises _Nothing when they pass before the deadline."""
        left = self._deadline.left()
        is_short = seconds is not None and seconds < left
        with self._deadline.translated(BadAnswer, "no complete answer"):
            self._set_timeout(seconds if seconds is not None and is_short else left)
            try:
                found = self._connection.recv(RECEIVE_BYTES)
            except TimeoutError:
                if is_short:
                    raise _Nothing from None
                raise
        self._buffer += found
        return bool(found)

    def _set_timeout(self, seconds: float) -> None:
        """Each call of `settimeout` is two system calls. The ticks of a stream are equally long."""
        if seconds != self._timeout_s:
            self._connection.settimeout(seconds)
            self._timeout_s = seconds


class Response:
    """An answer whose body is still to come. The deadline of the call also covers the time between two chunks."""

    def __init__(self, wire: _Wire, method: str, answer_bytes: int) -> None:
        self._wire, self._answer_bytes = wire, answer_bytes
        self.status, self.headers = self._head()
        self._is_empty = method == "HEAD" or self.status in (204, 304)
        self._length = self._frame()

    def chunks(self, *, tick_s: float | None = None) -> Iterator[bytes]:
        """The body as it arrives. Raises `AnswerTooLarge` instead of passing the bound.

        With `tick_s` an empty chunk comes at least so often while nothing arrives.
        """
        received = 0
        for chunk in self._body(tick_s):
            received += len(chunk)
            if received > self._answer_bytes:
                raise AnswerTooLarge(f"the answer is larger than {self._answer_bytes} bytes")
            yield chunk

    def read(self) -> bytes:
        return b"".join(self.chunks())

    def read_start(self) -> bytes:
        """The first bytes up to the bound; the rest is not read."""
        start = bytearray()
        for chunk in self._body():
            start += chunk
            if len(start) >= self._answer_bytes:
                break
        return bytes(start[: self._answer_bytes])

    def _head(self) -> tuple[int, dict[str, str]]:
        while True:
            found = _STATUS.fullmatch(self._wire.line())
            if found is None:
                raise BadAnswer("the answer is not HTTP/1.1")
            status, headers = int(found[1]), self._fields()
            if status == 101:
                raise BadAnswer("the target changed the protocol")
            if status >= 200:
                return status, headers

    def _fields(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for count in range(HEADER_FIELDS + 1):
            line = self._wire.line().decode("latin-1")
            if not line:
                return headers
            name, colon, value = line.partition(":")
            if count == HEADER_FIELDS:
                break
            if not colon or not _TOKEN.fullmatch(name):
                raise BadAnswer("a header line is not valid")
            name, value = name.lower(), value.strip(" \t")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        raise BadAnswer(f"the header has more than {HEADER_FIELDS} lines")

    def _frame(self) -> int | None:
        """Bytes of the body; None where it is chunked or ends with the connection."""
        encoding, length = self.headers.get("transfer-encoding"), self.headers.get("content-length")
        self._is_chunked = encoding is not None
        if encoding is not None and encoding.lower() != "chunked":
            raise BadAnswer("the transfer encoding is not known")
        if length is None or self._is_chunked:
            return None
        if not re.fullmatch("[0-9]{1,15}", length):
            raise BadAnswer("the content length is not a number")
        return int(length)

    def _body(self, tick_s: float | None = None) -> Iterator[bytes]:
        if self._is_empty:
            return
        if self._is_chunked:
            yield from self._chunked(tick_s)
        elif self._length is not None:
            yield from self._exactly(self._length, tick_s)
        else:
            while True:
                yield from self._ticks(tick_s)
                if not (chunk := self._wire.some(RECEIVE_BYTES)):
                    return
                yield chunk

    def _ticks(self, tick_s: float | None, *, for_line: bool = False) -> Iterator[bytes]:
        """Empty chunks until the next read does not wait."""
        while tick_s is not None and not self._wire.wait(tick_s, for_line=for_line):
            yield b""

    def _chunked(self, tick_s: float | None) -> Iterator[bytes]:
        while True:
            yield from self._ticks(tick_s, for_line=True)
            found = _CHUNK.fullmatch(self._wire.chunk_line())
            if found is None:
                raise BadAnswer("the size of a chunk is not valid")
            if (size := int(found[1], 16)) == 0:
                self._fields()
                return
            yield from self._exactly(size, tick_s)
            yield from self._ticks(tick_s, for_line=True)
            if self._wire.chunk_line():
                raise BadAnswer("a chunk is longer than its size")

    def _exactly(self, left: int, tick_s: float | None) -> Iterator[bytes]:
        while left:
            yield from self._ticks(tick_s)
            chunk = self._wire.some(min(left, RECEIVE_BYTES))
            if not chunk:
                raise BadAnswer("the connection was closed inside the answer")
            left -= len(chunk)
            yield chunk


class Exchange:
    """A request that was sent and whose answer is read in phases, each with a limit of its own below the deadline."""

    def __init__(self, wire: _Wire, deadline: _Deadline, method: str, answer_bytes: int) -> None:
        self._wire, self._deadline, self._method, self._answer_bytes = wire, deadline, method, answer_bytes

    def limit(self, seconds: float | None) -> None:
        """From now the reads end after so many seconds in DeadlineExceeded. None: with the deadline of the call."""
        self._deadline.limit(seconds)

    def has_begun(self, seconds: float) -> bool:
        """Wait for the first byte of the answer, or the end of the connection, for so many seconds."""
        return self._wire.wait(seconds)

    def response(self) -> Response:
        return Response(self._wire, self._method, self._answer_bytes)


class Client:
    """Safe to share between threads: a call keeps nothing in it.

    `allowed` are the operator's targets, `ports` those of all others. The rest are for tests.
    """

    def __init__(
        self,
        *,
        allowed: Targets = frozenset(),
        ports: frozenset[int] | None = None,
        resolve: Resolve = system_resolver,
        dial: Dial = dial,
        tls: Callable[[], ssl.SSLContext] = tls_context,
    ) -> None:
        self._allowed, self._ports = allowed, parse_ports(DEFAULT_PORTS) if ports is None else ports
        self._resolve, self._dial, self._tls = resolve, dial, tls
        self._lookups = threading.BoundedSemaphore(LOOKUPS)

    def check(self, url: str, *, lookup_s: float | None = None) -> Target:
        """Refuse what no call can reach. With `lookup_s` the name's addresses are checked too, if they are found."""
        target = self._target(url)
        if lookup_s is not None:
            with contextlib.suppress(ConnectFailed, DeadlineExceeded):
                self._addresses(target, _Deadline(lookup_s))
        return target

    def call(
        self,
        method: str,
        url: str,
        *,
        deadline_s: float,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        answer_bytes: int = ANSWER_BYTES,
        is_start_enough: bool = False,
    ) -> Answer:
        """The whole answer, or its first `answer_bytes` where the start is enough."""
        with self.stream(
            method, url, deadline_s=deadline_s, headers=headers, body=body, answer_bytes=answer_bytes
        ) as response:
            found = response.read_start() if is_start_enough else response.read()
            return Answer(response.status, response.headers, found)

    @contextlib.contextmanager
    def stream(
        self,
        method: str,
        url: str,
        *,
        deadline_s: float,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        answer_bytes: int = ANSWER_BYTES,
    ) -> Iterator[Response]:
        """The answer as it arrives, inside the block. Everything in the block counts against the deadline."""
        with self.exchange(
            method, url, deadline_s=deadline_s, headers=headers, body=body, answer_bytes=answer_bytes
        ) as exchange:
            yield exchange.response()

    @contextlib.contextmanager
    def exchange(
        self,
        method: str,
        url: str,
        *,
        deadline_s: float,
        connect_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        answer_bytes: int = ANSWER_BYTES,
    ) -> Iterator[Exchange]:
        """As `stream`, before the first byte of the answer. `connect_s` bounds the search for a name and TLS too."""
        deadline = _Deadline(deadline_s)
        target = self._target(url)
        request = _request(method, target, headers or {}, body)
        deadline.limit(connect_s)
        with contextlib.closing(self._connected(target, deadline)) as connection:
            deadline.limit(None)
            wire = _Wire(connection, deadline)
            try:
                wire.send(request)
            except TimeoutError:
                raise DeadlineExceeded("the request was not received before the deadline") from None
            except OSError:
                pass  # a target may answer and close before it has read all
            yield Exchange(wire, deadline, method, answer_bytes)

    def connect(self, url: str, *, deadline_s: float) -> tuple[Target, socket.socket]:
        """A connection to a target that was checked, for protocols that begin with HTTP. The caller closes it."""
        target = self._target(url)
        return target, self._connected(target, _Deadline(deadline_s))

    def _connected(self, target: Target, deadline: _Deadline) -> socket.socket:
        try:
            return self._connect(target, deadline)
        except DeadlineExceeded as error:
            raise ConnectTimedOut(error.reason) from error

    def _target(self, url: str) -> Target:
        if len(url) > URL_CHARACTERS or not _PRINTABLE.fullmatch(url):
            raise TargetRefused("the URL is too long or has characters beyond printable ASCII")
        found = _URL.fullmatch(url)
        if found is None:
            raise TargetRefused("the URL does not begin with http:// or https://")
        scheme, authority, path, query = found.groups()
        if "@" in authority:
            raise TargetRefused("the URL has user information")
        place = _AUTHORITY.fullmatch(authority)
        if place is None:
            raise TargetRefused("the host or port is not valid")
        host, address = _parse_host(place[1])
        is_secure = scheme.lower() == "https"
        port = int(place[2]) if place[2] else 443 if is_secure else 80
        target = Target(
            is_secure=is_secure,
            host=host,
            port=port,
            path=(path or "/") + (query or ""),
            address=None if address is None else str(address),
            is_allowed=(host, port) in self._allowed,
        )
        if not target.is_allowed:
            self._check_public(target)
        return target

    def _check_public(self, target: Target) -> None:
        """What can be refused without a name server."""
        if target.port not in self._ports:
            raise TargetRefused(f"port {target.port} is not called")
        if target.address is not None:
            if not is_public(target.address):
                raise TargetRefused("the address is not public")
        elif "." not in target.host or target.host.endswith(LOCAL_SUFFIXES):
            raise TargetRefused("the host name is not public")

    def _addresses(self, target: Target, deadline: _Deadline) -> Sequence[str]:
        if target.address is not None:
            return [target.address]
        addresses = self._look_up(target, deadline)
        if not addresses:
            raise ConnectFailed("the host name has no address")
        # One private address among public ones is an attack, not a choice.
        if not target.is_allowed and not all(is_public(address) for address in addresses):
            raise TargetRefused("the host name has an address that is not public")
        return addresses

    def _look_up(self, target: Target, deadline: _Deadline) -> Sequence[str]:
        """In a thread of its own: the system's resolver knows no deadline."""
        found: queue.SimpleQueue[Sequence[str] | Exception] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                found.put(self._resolve(target.host, target.port))
            except Exception as error:  # noqa: BLE001 (it is raised in the caller's thread)
                found.put(error)
            finally:
                self._lookups.release()

        if not self._lookups.acquire(timeout=deadline.left()):
            raise DeadlineExceeded("the name servers did not answer before the deadline")
        threading.Thread(target=look_up, name="lookup", daemon=True).start()
        try:
            answer = found.get(timeout=deadline.left())
        except queue.Empty:
            raise DeadlineExceeded("the name server did not answer before the deadline") from None
        if isinstance(answer, (OSError, ValueError)):
            raise ConnectFailed("the host name was not found") from answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _connect(self, target: Target, deadline: _Deadline) -> socket.socket:
        """To an address that was checked, whatever the name says by now. TLS still verifies the name."""
        addresses = list(dict.fromkeys(self._addresses(target, deadline)))
        for place, address in enumerate(addresses, 1):
            # An address that does not answer leaves its share of the time to the others.
            share_s = deadline.left() / (len(addresses) - place + 1)
            try:
                with deadline.translated(ConnectFailed, "no connection"):
                    connection = self._dial(address, target.port, share_s)
                break
            except (ConnectFailed, DeadlineExceeded):
                if place == len(addresses):
                    raise
        return self._secured(connection, target, deadline) if target.is_secure else connection

    def _secured(self, connection: socket.socket, target: Target, deadline: _Deadline) -> socket.socket:
        name = target.host.strip("[]")
        try:
            with deadline.translated(ConnectFailed, "no TLS connection"):
                secured = self._tls().wrap_socket(connection, server_hostname=name, do_handshake_on_connect=False)
                connection = secured
                secured.settimeout(deadline.left())
                secured.do_handshake()
        except BaseException:
            connection.close()
            raise
        return secured


def _request(method: str, target: Target, headers: Mapping[str, str], body: bytes | None) -> bytes:
    if not _METHOD.fullmatch(method) or method in ("CONNECT", "TRACE"):
        raise RequestRefused("the method is not called")
    fields = {
        "Host": target.authority,
        "Connection": "close",
        "User-Agent": "Artiway/1",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
    }
    known = {name.lower(): name for name in fields}
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise RequestRefused("a header has characters that cannot be sent")
        if name.lower() in _OWN_HEADERS or name.lower().startswith("proxy-"):
            raise RequestRefused(f"the header {name.lower()} is the client's own")
        fields[known.setdefault(name.lower(), name)] = value
    if body is not None or method in _WITH_BODY:
        fields["Content-Length"] = str(len(body or b""))
    lines = [f"{method} {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b"")
