"""The one client for targets that tenants name: private places are refused, slow ones are cut at the deadline."""

from __future__ import annotations

import ast
import contextlib
import datetime
import ipaddress
import socket
import ssl
import sys
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from artiway.platform import outbound
from artiway.platform.outbound import (
    HEADER_BYTES,
    HEADER_FIELDS,
    AnswerTooLarge,
    BadAnswer,
    Client,
    ConnectFailed,
    ConnectTimedOut,
    DeadlineExceeded,
    OutboundError,
    RequestRefused,
    TargetRefused,
    is_public,
    parse_ports,
    parse_targets,
    tls_context,
)
from tests.fakes.targets import Script

SHORT_S = 0.3
LONG_S = 30
PUBLIC = "93.184.215.14"

PRIVATE_ADDRESSES = [
    # IPv4: this machine, networks of one's own, metadata
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.8.8.8",
    "168.63.129.16",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.5.4",
    "172.31.255.255",
    "192.168.1.1",
    # IPv4: assignments, documentation, benchmarks, multicast, reserved
    "192.0.0.1",
    "192.0.0.170",
    "192.0.2.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.99.1",
    "192.175.48.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    # IPv6: this machine, links, sites, unique local, multicast
    "::",
    "::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "feff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "ff02::1",
    "ff0e::1",
    # IPv4 inside IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:8.8.8.8",
    "::ffff:7f00:1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "64:ff9b:1:ffff::7f00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2002:808:808::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2606:4700::5efe:7f00:1",
    "2606:4700::200:5efe:a00:1",
    # IPv6: benchmarks, ORCHID, documentation, AS112, 6bone, discard, segment routing, unassigned
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:4:112::1",
    "2001:1ff:ffff::1",
    "2001:db8::1",
    "2620:4f:8000::1",
    "3ffe::1",
    "3fff::1",
    "3fff:fff::1",
    "100::1",
    "5f00::1",
    "4000::1",
    "1fff::1",
    "200::1",
    "c000::1",
]
PUBLIC_ADDRESSES = [
    "1.1.1.1",
    "8.8.8.8",
    PUBLIC,
    "223.5.5.5",
    "2606:4700::1111",
    "2001:4860:4860::8888",
    "2400:3200::1",
]
# Each of them is this machine, or would be to some resolver.
SPELLINGS = [
    "localhost",
    "LOCALHOST",
    "printer.localhost",
    "nas.local",
    "metadata.google.internal",
    "router.home.arpa",
    "hidden.onion",
    "intranet",
    "0",
    "1",
    "127.1",
    "127.0.1",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "0177.0.0.01",
    "127.0.0.01",
    "127.0.0.0x1",
    "0x7f000001",
    "0X7F000001",
    "0x7f.1",
    "0x7f.0.0.1",
    "0x",
    "1.0x",
    "127.0.0.1.",
    "127.0.0.1..",
    "127.0.0.256",
    "127.0.0.1.1",
    "4294967297",
    "localhost.",
    "example.com.",
    "example..com",
    ".example.com",
    ".",
    "..",
    "-example.com",
    "example-.com",
    "exa mple.com",
    "exa%6dple.com",
    "%31%32%37.0.0.1",
    "127%2e0.0.1",
    "１２７.0.0.1",
    "①②⑦.0.0.1",
    "127。0。0。1",
    "ｌｏｃａｌｈｏｓｔ",
    "bücher.example.com",
    "example.com\\@127.0.0.1",
    "example.com\t.example.com",
    "example.com\r\nHost:x",
    "a" * 64 + ".com",
    "a." * 127 + "com",
    "[::1%lo]",
    "[::1%25lo]",
    "[fe80::1%eth0]",
    "[2606:4700::1111%1]",
    "[::1",
    "::1",
    "[127.0.0.1]",
    "[v1.x]",
    "[]",
    "",
    *(f"[{address}]" if ":" in address else address for address in PRIVATE_ADDRESSES),
]


def never(*_):
    raise AssertionError("nothing may be connected")


def resolver(*answers):
    """A name server that gives the next answer to each question, and the last one for ever."""
    left = list(answers)

    def resolve(host, port):
        resolve.asked.append((host, port))
        return left.pop(0) if len(left) > 1 else left[0]

    resolve.asked = []
    return resolve


@pytest.fixture
def serve():
    with contextlib.ExitStack() as stack:

        def start(scene, context=None):
            if isinstance(scene, bytes):
                text = scene

                def scene(script, connection):
                    script.take(connection)
                    connection.sendall(text)

            return stack.enter_context(contextlib.closing(Script(scene, context)))

        yield start


def url_of(server, path="/", scheme="http", host="127.0.0.1"):
    return f"{scheme}://{host}:{server.port}{path}"


def client_of(*servers, host="127.0.0.1", **options):
    return Client(allowed=frozenset((host, server.port) for server in servers), **options)


class TestAddresses:
    @pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
    def test_special_address_is_not_public(self, address):
        assert not is_public(address)

    @pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
    def test_global_unicast_address_is_public(self, address):
        assert is_public(address)

    @pytest.mark.parametrize("text", ["", "x", "8.8.8", "08.8.8.8", "2606:4700::1111%1", "8.8.8.8 "])
    def test_text_that_is_no_address_is_not_public(self, text):
        assert not is_public(text)

    @pytest.mark.parametrize("host", SPELLINGS)
    def test_no_spelling_of_private_host_is_called(self, host):
        client = Client(dial=never, resolve=never)
        for url in (f"http://{host}/", f"https://{host}:8443/x"):
            with pytest.raises(TargetRefused):
                client.check(url)
            with pytest.raises(TargetRefused):
                client.call("GET", url, deadline_s=LONG_S)

    @pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
    def test_name_with_private_address_is_refused(self, address):
        client = Client(dial=never, resolve=resolver([address]))
        with pytest.raises(TargetRefused):
            client.call("GET", "https://shop.example.com/", deadline_s=LONG_S)

    @pytest.mark.parametrize("answers", [[PUBLIC, "10.0.0.1"], ["::1", PUBLIC], [PUBLIC, PUBLIC, "fe80::1%eth0"]])
    def test_one_private_address_among_public_is_refused(self, answers):
        client = Client(dial=never, resolve=resolver(answers))
        with pytest.raises(TargetRefused):
            client.call("GET", "https://shop.example.com/", deadline_s=LONG_S)

    @pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
    def test_connection_goes_to_checked_address(self, address):
        dialled = []

        def dial(*place):
            dialled.append(place[:2])
            raise ConnectionRefusedError

        # The second lookup of this name would find this machine.
        resolve = resolver([address], ["127.0.0.1"])
        with pytest.raises(ConnectFailed):
            Client(dial=dial, resolve=resolve).call("GET", "http://shop.example.com:8080/", deadline_s=LONG_S)
        assert dialled == [(address, 8080)]
        assert resolve.asked == [("shop.example.com", 8080)]

    def test_next_address_is_called_when_one_fails(self, serve):
        server = serve(b"HTTP/1.1 200 OK\r\n\r\nok")
        dialled = []

        def dial(address, port, timeout_s):
            dialled.append(address)
            if address != "127.0.0.1":
                raise TimeoutError if address.endswith("1") else ConnectionRefusedError
            return outbound.dial(address, port, timeout_s)

        client = client_of(
            server, host="shop.example.com", dial=dial, resolve=resolver(["10.0.0.1", "10.0.0.2", "127.0.0.1"])
        )
        answer = client.call("GET", url_of(server, host="shop.example.com"), deadline_s=LONG_S)
        assert answer.body == b"ok"
        assert dialled == ["10.0.0.1", "10.0.0.2", "127.0.0.1"]

    def test_name_without_address_may_be_retried(self):
        def unknown(_host, _port):
            raise socket.gaierror(socket.EAI_NONAME, "unknown")

        for resolve in (unknown, resolver([])):
            with pytest.raises(ConnectFailed) as failed:
                Client(resolve=resolve, dial=never).call("GET", "http://shop.example.com/", deadline_s=LONG_S)
            assert failed.value.is_retryable


class TestUrls:
    @pytest.mark.parametrize(
        "url",
        [
            "",
            "nonsense",
            "ftp://example.com/",
            "file:///etc/passwd",
            "gopher://example.com/",
            "javascript:alert(1)",
            "//example.com/",
            "http:/example.com/",
            "http:example.com",
            "http://",
            "http://user@example.com/",
            "http://user:password@example.com/",
            "http://@example.com/",
            "http://example.com:/",
            "http://example.com:0/",
            "http://example.com:99999/",
            "http://example.com:-1/",
            "http://example.com:80:80/",
            "http://example.com/a b",
            "http://example.com/\r\nX: y",
            " http://example.com/",
            "http://example.com/ü",
            "http://example.com/\x7f",
            "http://example.com/" + "a" * 9_000,
        ],
    )
    def test_invalid_url_is_refused(self, url):
        with pytest.raises(TargetRefused):
            Client(dial=never, resolve=never).check(url)

    @pytest.mark.parametrize("port", [21, 22, 23, 25, 53, 110, 465, 587, 2375, 3306, 5432, 6379, 9200, 11211, 27017])
    def test_ports_of_other_services_are_refused(self, port):
        with pytest.raises(TargetRefused, match="port"):
            Client(dial=never, resolve=never).check(f"http://example.com:{port}/")

    @pytest.mark.parametrize(
        "place", ["example.com", "EXAMPLE.com:8080", "xn--bcher-kva.example.com", "my_shop.cn:8443"]
    )
    def test_public_name_is_not_refused(self, place):
        assert Client(dial=never, resolve=never).check(f"https://{place}/hook?x=1#y").path == "/hook?x=1"

    def test_ports_are_numbers_and_ranges(self):
        assert parse_ports("80, 443,8000-8002") == {80, 443, 8000, 8001, 8002}
        for text in ("x", "0", "70000", "9-1", "1-", "-1"):
            with pytest.raises(ValueError):
                parse_ports(text)

    def test_check_refuses_name_that_is_private_now(self):
        client = Client(resolve=resolver(["10.0.0.1"]), dial=never)
        client.check("https://shop.example.com/")
        with pytest.raises(TargetRefused):
            client.check("https://shop.example.com/", lookup_s=LONG_S)

    def test_check_does_not_need_name_server(self):
        def away(_host, _port):
            raise socket.gaierror(socket.EAI_AGAIN, "away")

        is_over = threading.Event()
        for resolve in (away, lambda *_: is_over.wait(LONG_S)):
            Client(resolve=resolve, dial=never).check("https://shop.example.com/", lookup_s=SHORT_S)
        is_over.set()


class TestAllowedTargets:
    def test_list_names_hosts_with_ports(self):
        assert parse_targets(" 127.0.0.1:9000, Box.LAN:80,,[::1]:81 ") == {
            ("127.0.0.1", 9000),
            ("box.lan", 80),
            ("[::1]", 81),
        }
        assert parse_targets("") == frozenset()

    @pytest.mark.parametrize("text", ["x", "127.0.0.1", "x:", "x:0", "x:70000", "127.1:80", "http://x:80", "x:80 y:81"])
    def test_entry_that_is_no_pair_is_error(self, text):
        with pytest.raises(ValueError, match=text.split(":")[0]):
            parse_targets(text)

    def test_listed_target_is_called_and_no_other(self, serve):
        server, other = serve(b"HTTP/1.1 200 OK\r\n\r\n"), serve(b"HTTP/1.1 200 OK\r\n\r\n")
        client = client_of(server, ports=frozenset({server.port, other.port}))
        assert client.call("GET", url_of(server), deadline_s=LONG_S).status == 200
        for host in ("localhost", "127.0.0.2", "127.1", "2130706433", "[::ffff:127.0.0.1]", "0"):
            with pytest.raises(TargetRefused):
                client.call("GET", url_of(server, host=host), deadline_s=LONG_S)
        with pytest.raises(TargetRefused):
            client.call("GET", url_of(other), deadline_s=LONG_S)
        assert len(server.requests) == 1
        assert other.requests == []

    def test_redirect_to_private_place_is_not_followed(self, serve):
        inside = serve(b"HTTP/1.1 200 OK\r\n\r\nsecret")
        location = url_of(inside).encode()
        for status in (301, 302, 303, 307, 308):
            server = serve(b"HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % (status, location))
            answer = client_of(server, inside).call("GET", url_of(server), deadline_s=LONG_S)
            assert (answer.status, answer.headers["location"]) == (status, location.decode())
        assert inside.requests == []

    def test_proxy_of_the_environment_is_ignored(self, serve, monkeypatch):
        server, proxy = serve(b"HTTP/1.1 200 OK\r\n\r\n"), serve(b"HTTP/1.1 200 OK\r\n\r\n")
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
            monkeypatch.setenv(name, url_of(proxy))
        assert client_of(server).call("GET", url_of(server), deadline_s=LONG_S).status == 200
        assert (len(server.requests), len(proxy.requests)) == (1, 0)


class TestRequests:
    @pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
    def test_every_method_is_sent_with_headers_and_body(self, serve, method):
        server = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\nX-A: 2\r\n\r\nok")
        answer = client_of(server).call(
            method,
            url_of(server, "/a?b=1"),
            deadline_s=LONG_S,
            headers={"X-Key": "é", "user-agent": "me"},
            body=b"\0{}",
        )
        assert (answer.status, answer.headers["x-a"]) == (200, "1, 2")
        assert answer.body == (b"" if method == "HEAD" else b"ok")
        ((head, body),) = server.requests
        assert head[0] == f"{method} /a?b=1 HTTP/1.1"
        assert {f"Host: 127.0.0.1:{server.port}", "X-Key: é", "User-Agent: me", "Content-Length: 3"} <= set(head)
        assert body == b"\0{}"

    @pytest.mark.parametrize(
        "headers",
        [
            {"X": "a\r\nY: b"},
            {"X": "a\nb"},
            {"X": "a\0"},
            {"X": "漢"},
            {"X\r\nY": "a"},
            {"X Y": "a"},
            {"X:": "a"},
            {"": "a"},
            {"Host": "inside"},
            {"host": "inside"},
            {"Content-Length": "0"},
            {"Transfer-Encoding": "chunked"},
            {"Connection": "keep-alive"},
            {"Proxy-Authorization": "x"},
        ],
    )
    def test_header_that_would_inject_is_refused(self, headers):
        with pytest.raises(RequestRefused):
            Client(dial=never, resolve=never).call("GET", f"http://{PUBLIC}/", deadline_s=LONG_S, headers=headers)

    @pytest.mark.parametrize("method", ["", "get", "CONNECT", "TRACE", "GET /", "GET\r\n", "A" * 21])
    def test_method_that_is_none_is_refused(self, method):
        with pytest.raises(RequestRefused):
            Client(dial=never, resolve=never).call(method, f"http://{PUBLIC}/", deadline_s=LONG_S)

    def test_answer_before_whole_request_counts(self, serve):
        def refuse(_script, connection):
            connection.recv(1_000)
            connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65_536):
                pass

        server = serve(refuse)
        assert client_of(server).call("POST", url_of(server), deadline_s=LONG_S, body=b"x" * 500_000).status == 413


class TestAnswers:
    @pytest.mark.parametrize(
        ("text", "body"),
        [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more", b"hello"),
            (b"HTTP/1.0 200\r\n\r\nhello", b"hello"),
            (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", b"hello"),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nT: x\r\n\r\n",
                b"hello",
            ),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhello", b"hello"),
            (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", b""),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
        ],
    )
    def test_body_is_framed_as_header_says(self, serve, text, body):
        server = serve(text)
        assert client_of(server).call("GET", url_of(server), deadline_s=LONG_S).body == body

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"hello",
            b"HTTP/2 200 OK\r\n\r\n",
            b"HTTP/1.1 20 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nhello\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        ],
    )
    def test_answer_that_breaks_off_is_bad(self, serve, text):
        server = serve(text)
        with pytest.raises(BadAnswer):
            client_of(server).call("GET", url_of(server), deadline_s=LONG_S)

    @pytest.mark.parametrize(
        "header",
        [
            b"X: " + b"a" * HEADER_BYTES,
            b"\r\n".join(b"X-%d: a" % number for number in range(HEADER_FIELDS + 1)),
            b"\r\n".join(b"X-%d: %s" % (number, b"a" * 1_000) for number in range(50)),
        ],
        ids=["long line", "many lines", "large"],
    )
    def test_header_beyond_its_bounds_is_bad(self, serve, header):
        server = serve(b"HTTP/1.1 200 OK\r\n" + header + b"\r\n\r\nok")
        with pytest.raises(BadAnswer, match="header"):
            client_of(server).call("GET", url_of(server), deadline_s=LONG_S)

    def test_interim_answers_without_end_are_bad(self, serve):
        server = serve(b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000)
        with pytest.raises(BadAnswer, match="header"):
            client_of(server).call("GET", url_of(server), deadline_s=LONG_S)

    def test_body_beyond_its_bound_is_refused(self, serve):
        server = serve(b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * 1_001)
        client = client_of(server)
        with pytest.raises(AnswerTooLarge):
            client.call("GET", url_of(server), deadline_s=LONG_S, answer_bytes=1_000)
        start = client.call("GET", url_of(server), deadline_s=LONG_S, answer_bytes=1_000, is_start_enough=True)
        assert start.body == b"a" * 1_000
        assert client.call("GET", url_of(server), deadline_s=LONG_S, answer_bytes=1_001).body == b"a" * 1_001

    def test_streamed_answer_arrives_chunk_by_chunk(self, serve):
        is_read = threading.Event()

        def speak(script, connection):
            script.take(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
            assert is_read.wait(LONG_S)  # the second is sent after the first was read
            connection.sendall(b"3\r\ntwo\r\n0\r\n\r\n")

        server = serve(speak)
        with client_of(server).stream("POST", url_of(server), deadline_s=LONG_S) as response:
            chunks = response.chunks()
            first = next(chunks)
            is_read.set()
            assert (response.status, first, b"".join(chunks)) == (200, b"one", b"two")

    def test_leaving_stream_early_closes_connection(self, serve):
        is_closed = threading.Event()

        def speak(script, connection):
            script.take(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nfirst")
            if not connection.recv(1):
                is_closed.set()

        server = serve(speak)
        with client_of(server).stream("GET", url_of(server), deadline_s=LONG_S) as response:
            assert next(response.chunks()) == b"first"
        assert is_closed.wait(LONG_S)


def after(text):
    """A scene that answers with this and then drips."""

    def scene(script, connection):
        script.take(connection)
        connection.sendall(text)
        script.drip(connection)

    return scene


def silent(script, connection):
    script.take(connection)
    connection.recv(1)


class TestDeadlines:
    @pytest.mark.parametrize(
        "scene",
        [
            silent,
            after(b""),
            after(b"HTTP/1.1 200 OK\r\nX: "),
            after(b"HTTP/1.1 200 OK\r\n\r\n"),
            after(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"),
            after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n"),
            after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"),
            after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: "),
        ],
        ids=["silence", "status", "header", "body", "length", "chunk", "chunk size", "trailer"],
    )
    def test_dripping_answer_is_cut_at_its_deadline(self, serve, scene):
        server = serve(scene)
        with pytest.raises(DeadlineExceeded) as failed:
            client_of(server).call("POST", url_of(server), deadline_s=SHORT_S, body=b"{}")
        assert failed.value.is_retryable

    def test_dripping_handshake_is_cut_at_its_deadline(self, serve):
        def scene(script, connection):
            connection.recv(1_000)
            connection.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")  # the beginning of a record of 16 KB
            script.drip(connection)

        server = serve(scene)
        with pytest.raises(DeadlineExceeded):
            client_of(server).call("GET", url_of(server, scheme="https"), deadline_s=SHORT_S)

    def test_unread_request_ends_at_the_deadline(self, serve):
        is_over = threading.Event()
        server = serve(lambda _script, _connection: is_over.wait(LONG_S))
        with pytest.raises(DeadlineExceeded):
            client_of(server).call("POST", url_of(server), deadline_s=SHORT_S, body=b"x" * 50_000_000)
        is_over.set()

    def test_silent_name_server_is_cut(self):
        is_over = threading.Event()
        client = Client(resolve=lambda *_: is_over.wait(LONG_S), dial=never)
        with pytest.raises(DeadlineExceeded):
            client.call("GET", "http://shop.example.com/", deadline_s=SHORT_S)
        is_over.set()

    def test_lookups_that_hang_are_bounded(self, monkeypatch):
        monkeypatch.setattr(outbound, "LOOKUPS", 2)
        is_over, begun = threading.Event(), []
        client = Client(resolve=lambda *place: (begun.append(place), is_over.wait(LONG_S)), dial=never)
        for _ in range(3):
            with pytest.raises(DeadlineExceeded):
                client.call("GET", "http://shop.example.com/", deadline_s=SHORT_S)
        assert len(begun) == 2
        is_over.set()

    def test_pause_of_reader_counts_too(self, serve):
        server = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none")
        with client_of(server).stream("GET", url_of(server), deadline_s=SHORT_S) as response:
            threading.Event().wait(SHORT_S * 1.5)
            with pytest.raises(DeadlineExceeded):
                response.read()

    @pytest.mark.parametrize("deadline_s", [0, -1, 3_601, float("nan")])
    def test_deadline_has_bounds_of_its_own(self, deadline_s):
        with pytest.raises(ValueError):
            Client(dial=never, resolve=never).call("GET", f"http://{PUBLIC}/", deadline_s=deadline_s)


HEADS = {
    "end of connection": (b"HTTP/1.1 200 OK\r\n\r\n", lambda part: part),
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", lambda part: part),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        lambda part: b"%x\r\n%b\r\n" % (len(part), part),
    ),
}


class TestPhases:
    """An exchange is read in phases: before the first byte, and between two chunks."""

    @pytest.mark.parametrize("frame", HEADS)
    def test_silence_gives_empty_chunks(self, serve, frame):
        head, framed = HEADS[frame]
        goes_on = threading.Event()

        def speak(script, connection):
            script.take(connection)
            connection.sendall(head + framed(b"one"))
            assert goes_on.wait(LONG_S)
            connection.sendall(framed(b"two") + (b"0\r\n\r\n" if frame == "chunks" else b""))

        server = serve(speak)
        with client_of(server).exchange("GET", url_of(server), deadline_s=LONG_S) as exchange:
            chunks = exchange.response().chunks(tick_s=0.01)
            assert [next(chunks), next(chunks), next(chunks)] == [b"one", b"", b""]
            goes_on.set()
            assert b"".join(chunks) == b"two"

    def test_caller_sees_when_answer_begins(self, serve):
        goes_on = threading.Event()

        def speak(script, connection):
            script.take(connection)
            assert goes_on.wait(LONG_S)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        server = serve(speak)
        with client_of(server).exchange("GET", url_of(server), deadline_s=LONG_S) as exchange:
            assert not exchange.has_begun(0.01)
            goes_on.set()
            assert exchange.has_begun(LONG_S)
            assert exchange.response().read() == b"ok"

    def test_end_of_connection_is_a_beginning(self, serve):
        server = serve(lambda script, connection: script.take(connection))
        with client_of(server).exchange("GET", url_of(server), deadline_s=LONG_S) as exchange:
            assert exchange.has_begun(LONG_S)
            with pytest.raises(BadAnswer):
                exchange.response()

    @pytest.mark.parametrize("tick_s", [None, 0.01])
    def test_phase_ends_before_the_deadline(self, serve, tick_s):
        server = serve(after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n"))
        with client_of(server).exchange("GET", url_of(server), deadline_s=LONG_S) as exchange:
            response = exchange.response()
            exchange.limit(SHORT_S)
            with pytest.raises(DeadlineExceeded):
                list(response.chunks(tick_s=tick_s))

    def test_next_phase_has_time_of_its_own(self, serve):
        server = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none")
        with client_of(server).exchange("GET", url_of(server), deadline_s=LONG_S) as exchange:
            exchange.limit(0)
            with pytest.raises(DeadlineExceeded):
                exchange.response()
            exchange.limit(None)
            assert exchange.response().read() == b"one"

    def test_phase_does_not_pass_the_deadline(self, serve):
        server = serve(silent)
        with client_of(server).exchange("GET", url_of(server), deadline_s=SHORT_S) as exchange:
            exchange.limit(LONG_S)
            with pytest.raises(DeadlineExceeded):
                exchange.response()

    def test_time_to_connect_is_bounded_alone(self):
        is_over = threading.Event()
        client = Client(resolve=lambda *_: is_over.wait(LONG_S), dial=never)
        with (
            pytest.raises(ConnectTimedOut),
            client.exchange("GET", "http://shop.example.com/", deadline_s=LONG_S, connect_s=SHORT_S),
        ):
            pytest.fail("no connection was made")
        is_over.set()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """What a server needs to be shop.example.com, and a client that trusts its issuer."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shop.example.com")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("shop.example.com"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    (folder / "all.pem").write_bytes(
        pem
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "all.pem")
    client = ssl.create_default_context(cadata=pem.decode())
    return server, lambda: client


class TestTls:
    @pytest.mark.parametrize("host", ["shop.example.com", "127.0.0.1"])
    def test_certificate_is_checked_by_name(self, serve, certificates, host):
        asked = []
        context, tls = certificates
        context.sni_callback = lambda _socket, name, _context: asked.append(name)
        server = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", context)
        client = client_of(server, host=host, resolve=resolver(["127.0.0.1"]), tls=tls)
        answer = client.call("GET", url_of(server, scheme="https", host=host), deadline_s=LONG_S)
        assert answer.body == b"ok"
        assert asked == ["shop.example.com" if host == "shop.example.com" else None]

    def test_certificate_of_another_name_is_refused(self, serve, certificates):
        context, tls = certificates
        server = serve(b"HTTP/1.1 200 OK\r\n\r\n", context)
        client = client_of(server, host="other.example.com", resolve=resolver(["127.0.0.1"]), tls=tls)
        with pytest.raises(ConnectFailed, match="certificate"):
            client.call("GET", url_of(server, scheme="https", host="other.example.com"), deadline_s=LONG_S)
        assert server.requests == []

    def test_unknown_issuer_is_refused(self, serve, certificates):
        server = serve(b"HTTP/1.1 200 OK\r\n\r\n", certificates[0])
        with pytest.raises(ConnectFailed, match="certificate"):
            client_of(server).call("GET", url_of(server, scheme="https"), deadline_s=LONG_S)

    def test_process_has_one_tls_context(self):
        assert tls_context() is tls_context()
        assert tls_context().verify_mode is ssl.CERT_REQUIRED
        assert tls_context().check_hostname


def test_module_imports_standard_library_alone():
    tree = ast.parse(Path(outbound.__file__).read_text("utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_every_error_says_whether_to_retry():
    kinds = [OutboundError, *OutboundError.__subclasses__(), AnswerTooLarge]
    assert {kind.__name__ for kind in kinds if not kind.is_retryable} == {
        "TargetRefused",
        "RequestRefused",
        "AnswerTooLarge",
    }
