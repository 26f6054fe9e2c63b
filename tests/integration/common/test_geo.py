"""Sources that answer, hang, fail and lie: all of them real servers on loopback."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from artiway.geo.model import LOCAL, UNKNOWN, SourceSpec
from artiway.geo.repository import LARGEST_BODY, HttpSource, report
from artiway.geo.service import GeoService
from artiway.geo.settings import SOURCES
from artiway.platform.cache import Cache
from artiway.platform.outbound import Client, parse_targets
from local.servers import free_port

ADDRESS = "113.110.1.1"
GBK = json.dumps({"addr": "广东省深圳市 电信"}, ensure_ascii=False).encode("gbk")
NESTED = json.dumps({"status": "0", "data": [{"location": "上海市 联通"}]}, ensure_ascii=False).encode()
SHORT_S = 1  # the time-out of a source in tests that have to wait it out


def says(body: bytes, status: str = "200 OK", *headers: str) -> Callable[[socket.socket], None]:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return lambda connection: connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def source(name: str, url: str) -> HttpSource:
    """A source of the default setting, at another address, which the operator allows."""
    spec = next(spec for spec in SOURCES.default if spec["name"] == name)
    client = Client(allowed=parse_targets(urlsplit(url).netloc))
    return HttpSource(SourceSpec(**{**spec, "url": url}), client)


@pytest.fixture
def locate(client) -> Callable[..., str]:
    """Ask the sources given as (name, url), in this order."""

    def ask(*wanted: tuple[str, str], address: str = ADDRESS, timeout_s: float = 20, limit_s: float = 40) -> str:
        service = GeoService(
            lambda: [source(name, url) for name, url in wanted],
            Cache(client),
            source_timeout_s=timeout_s,
            limit_s=limit_s,
            report=report,
        )
        return service.locate(address)

    return ask


def test_gbk_answer_of_first_source_is_enough(serve, locate):
    first, second = serve(says(GBK)), serve(says(NESTED))
    assert locate(("pconline", first.url()), ("baidu", second.url())) == "广东省深圳市 电信"
    assert first.asked == [f"GET /where?ip={ADDRESS} HTTP/1.1"]
    assert second.asked == []


def test_answer_is_kept_for_hour(serve, locate, client):
    served = serve(says(NESTED))
    assert [locate(("baidu", served.url())) for _ in range(3)] == ["上海市 联通"] * 3
    assert len(served.asked) == 1
    assert 3_500_000 < client.pttl(f"cache:value:geo:{ADDRESS}") <= 3_900_000


def fails(connection: socket.socket) -> None:
    says(b"", "500 Internal Server Error")(connection)


def drops(connection: socket.socket) -> None:
    connection.close()


def stutters(connection: socket.socket) -> None:
    connection.sendall(b"this is not HTTP\r\n\r\n")


def breaks_off(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + GBK)


def swells(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + b'{"addr": "x", "more": "')
    while True:
        connection.sendall(b"x" * LARGEST_BODY)


def is_a_bomb(connection: socket.socket) -> None:
    import gzip

    says(gzip.compress(b" " * 50_000_000), "200 OK", "Content-Encoding: gzip")(connection)


@pytest.mark.parametrize(
    "answer",
    [
        fails,
        drops,
        stutters,
        breaks_off,
        swells,
        is_a_bomb,
        says(b"<html>maintenance</html>"),
        says(b'"just text"'),
        says(b"{}"),
        says(NESTED),
        says(GBK, "404 Not Found"),
        says(GBK, "204 No Content"),
    ],
    ids=["fails", "drops", "stutters", "breaks off", "swells", "bomb", "html", "text", "empty", "other", "404", "204"],
)
def test_next_source_is_queried_after_a_bad_answer(serve, locate, answer):
    first, second = serve(answer), serve(says(NESTED))
    assert locate(("pconline", first.url()), ("baidu", second.url())) == "上海市 联通"
    assert (len(first.asked), len(second.asked)) == (1, 1)


def test_source_that_is_not_there_is_passed_over(serve, locate):
    served = serve(says(NESTED))
    assert locate(("pconline", f"http://127.0.0.1:{free_port()}/{{ip}}"), ("baidu", served.url())) == "上海市 联通"


def test_redirect_is_not_followed(serve, locate):
    inside = serve(says(GBK))
    served = serve(says(b"", "302 Found", f"Location: http://127.0.0.1:{inside.port}/secret"))
    assert locate(("pconline", served.url())) == UNKNOWN
    assert (len(served.asked), inside.asked) == (1, [])


def hangs(connection: socket.socket) -> None:
    connection.recv(1)  # until the client leaves


@pytest.mark.parametrize("part", ["head", "body"])
def test_source_that_drips_does_not_outlast_its_time(serve, locate, part):
    """Each byte comes in time, the whole does not. In the end it would even be right."""
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(GBK), GBK)
    at_once = 10 if part == "head" else len(whole) - len(GBK)
    left = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(whole[:at_once])
        for byte in whole[at_once:]:
            left.wait(SHORT_S / 3)
            connection.sendall(bytes([byte]))

    drop, second = serve(drip), serve(says(NESTED))
    assert locate(("pconline", drop.url()), ("baidu", second.url()), timeout_s=SHORT_S) == "上海市 联通"
    left.set()


def test_time_limit_covers_all_hanging_sources(serve, locate):
    first, second, third = serve(hangs), serve(hangs), serve(says(NESTED))
    sources = [("pconline", first.url()), ("pconline", second.url()), ("baidu", third.url())]
    assert locate(*sources, timeout_s=SHORT_S, limit_s=1.5 * SHORT_S) == UNKNOWN
    assert (len(first.asked), len(second.asked), third.asked) == (1, 1, [])


def test_unknown_location_is_cached(serve, locate, client):
    served = serve(fails)
    assert [locate(("pconline", served.url())) for _ in range(3)] == [UNKNOWN] * 3
    assert len(served.asked) == 1
    assert 0 < client.pttl(f"cache:value:geo:{ADDRESS}") <= 300_000


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.9",
        "172.16.5.5",
        "169.254.169.254",
        "::1",
        "fd00::1",
        "100.64.0.1",
        "0.0.0.0",
    ],
)
def test_private_address_is_answered_without_any_call(serve, locate, client, address):
    served = serve(says(GBK))
    assert locate(("pconline", served.url()), address=address) == LOCAL
    assert served.asked == []
    assert client.keys("cache:*") == []


@pytest.mark.parametrize("address", ["", "nonsense", "1.2.3.4/../../x", "8.8.8.8 OR 1=1", "\0", "1" * 10_000])
def test_invalid_address_is_unknown_without_a_call(serve, locate, address):
    served = serve(says(GBK))
    assert locate(("pconline", served.url()), address=address) == UNKNOWN
    assert served.asked == []


def test_without_sources_every_location_is_unknown(locate):
    assert locate() == UNKNOWN


def test_source_on_private_address_is_not_called(serve, client):
    inside = serve(says(GBK))
    spec = SourceSpec("inside", inside.url(), "utf-8", [["addr"]])
    service = GeoService(lambda: [HttpSource(spec, Client())], Cache(client), source_timeout_s=20, limit_s=40)
    assert service.locate(ADDRESS) == UNKNOWN
    assert inside.asked == []


def test_success_and_failure_are_counted_by_source(serve, locate, metric):
    first, second = serve(fails), serve(says(NESTED))
    locate(("pconline", first.url()), ("baidu", second.url()))
    assert metric("GeoSuccess") == [0, 100]


def test_without_redis_locations_are_still_found(serve, nobody_there):
    first = source("pconline", serve(says(GBK)).url())
    service = GeoService(lambda: [first], Cache(nobody_there), source_timeout_s=20, limit_s=40)
    assert service.locate(ADDRESS) == "广东省深圳市 电信"
